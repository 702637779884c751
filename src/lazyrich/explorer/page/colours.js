// Colours of curves and matrices, in light and dark.

const known = {}; // theme → name → colour: looking one up makes the browser lay out the page

/** The colour behind a CSS variable, as the theme has it now. */
export function colour(name) {
  const colours = (known[document.documentElement.dataset.theme] ??= {});
  if (!(name in colours)) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    colours[name] = getComputedStyle(probe).color;
    probe.remove();
  }
  return colours[name];
}

export function dark() {
  return document.documentElement.dataset.theme === "dark";
}

// Dark blue to yellow, as the library's figures draw modes: strong ones first. The dark theme leaves the darkest out.
const RAMP = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43]];

export function ramp(count) {
  const from = dark() ? 0.25 : 0;
  const to = dark() ? 1 : 0.9;
  return Array.from({ length: count }, (_, i) => rgb(between(RAMP, count === 1 ? 0.35 : from + ((to - from) * i) / (count - 1))));
}

export function series() {
  return ["blue", "orange", "green", "pink"].map(colour);
}

/** Blue below zero, red above it, paper at zero; `x` from −1 to 1. */
export function diverging(x) {
  const middle = dark() ? [27, 31, 36] : [250, 250, 250];
  const end = x < 0 ? (dark() ? [86, 180, 233] : [5, 90, 160]) : dark() ? [238, 128, 52] : [190, 60, 10];
  const share = Math.min(1, Math.abs(x)) ** 0.75; // small values can be seen
  return middle.map((m, i) => m + share * (end[i] - m));
}

// Of the phase picture, from little to much movement of the kernel: blue is lazy and nothing else is.
const VERDICTS = {
  lazy: [[20, 66, 110], [150, 195, 220]],
  rich: [[250, 205, 145], [205, 85, 0]],
  "delayed rich": [[240, 190, 220], [165, 45, 110]],
};

/** The shade of a kernel that moves so far, and is called so. */
export function verdictShade(name, moved, lazyBelow) {
  if (!(name in VERDICTS) || !Number.isFinite(moved)) return colour("line");
  const share = name === "lazy" ? moved / lazyBelow : (moved - lazyBelow) / (1 - lazyBelow);
  return rgb(between(VERDICTS[name], Math.min(1, Math.max(0, share))));
}

function between(colours, x) {
  const place = x * (colours.length - 1);
  const i = Math.min(colours.length - 2, Math.floor(place));
  return colours[i].map((c, k) => c + (place - i) * (colours[i + 1][k] - c));
}

function rgb(parts) {
  return `rgb(${parts.map(Math.round).join(",")})`;
}
