// What is happening and why, in words: the server's sentences put in their places, as text and never as markup.

import { element } from "./controls.js";

const get = (id) => document.getElementById(id);

export function tellView({ header }, state) {
  get("rings").textContent = header.predicted ? "half way, predicted" : "half way";
  get("legend").textContent = header.exact ? `theory, exact (${header.method})` : `theory, integrated (${header.method}${header.error ? `, to ${header.error.toExponential(0)}` : ""})`;
  get("told").textContent = [header.sizes.join("-"), ...header.tasks, ...header.notes, ...(state.depth > 2 && state.start === "aligned" ? ["aligned with the task: of many layers only these have a closed form"] : []), ...(state.descent && state.then.length ? ["gradient descent is drawn for one task only"] : [])].filter((part) => part).join(" · ");
  get("remarks").textContent = header.remarks.join(" · ");
}

export function tellCaptions(captions) {
  get("sentence").textContent = captions.sentence;
  const { theorem } = captions;
  const help = !document.body.classList.contains("recorded"); // a page without a server has none
  const title = help ? element("a", { href: `/help${theorem.anchor}`, target: "_blank", rel: "noopener", textContent: theorem.title }) : theorem.title;
  get("theorem-title").replaceChildren(title);
  get("theorem-statement").textContent = theorem.statement;
  get("theorem-why").textContent = [theorem.why, theorem.citation].filter((part) => part).join(" · ");
  get("equation").textContent = captions.equation.join("\n");
  get("certificate").textContent = captions.certificate ?? "";
  get("refused").hidden = captions.refused.length === 0;
  get("refused").querySelector("dl").replaceChildren(
    ...captions.refused.flatMap(({ name, reason }) => [element("dt", { textContent: name }), element("dd", { textContent: reason })]),
  );
  get("forgetting").replaceChildren(...(captions.forgetting ? [table(captions.forgetting)] : []));
}

/** By how much the loss of each task (columns) has risen after each stage (rows). */
function table(rows) {
  const head = rows[0].map((_, j) => element("th", { scope: "col", textContent: `task ${j + 1}` }));
  const body = rows.map((row, i) =>
    element("tr", {}, [
      element("th", { scope: "row", textContent: `after ${i + 1}` }),
      ...row.map((value) => element("td", { textContent: value === null ? "–" : value.toPrecision(3) })),
    ]),
  );
  const caption = element("caption", { className: "small", textContent: "forgetting: rise of the loss since its own training" });
  return element("table", {}, [caption, element("tr", {}, [element("td"), ...head]), ...body]);
}

export function complain(sentence) {
  get("error").hidden = !sentence;
  get("error").textContent = sentence ?? "";
}
