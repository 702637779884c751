// Loaded before plotly.js, which adds a style sheet for maps when it starts. We draw no maps, and the page's policy
// would block the sheet with an error in the console: style elements are left out of the head instead.
{
  const append = document.head.appendChild;
  document.head.appendChild = (node) => (node.tagName === "STYLE" ? node : append.call(document.head, node));
}
