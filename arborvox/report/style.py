"""The looks of the report: one column for a phone, two for a desk, no scripts, good on paper."""

# Okabe and Ito's colors, apart for color-blind readers, in an order that contrasts neighbors.
SERIES_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#666666")

STYLE = """
:root {
  color-scheme: light dark;
  --paper: light-dark(#ffffff, #14171a);
  --card: light-dark(#f5f6f4, #1e2327);
  --ink: light-dark(#1b1f23, #e4e7ea);
  --soft: light-dark(#5b646d, #9aa4ad);
  --rule: light-dark(#d9dddb, #363d43);
  --leaf: light-dark(#1f6f54, #62c39c);
  --good: light-dark(#e3f1ea, #1d3a2f);
  --substitution: light-dark(#fbe0c8, #59391b);
  --deletion: light-dark(#f8d4d6, #5a2529);
  --insertion: light-dark(#d6e4f7, #20395c);
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 64rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; text-wrap: balance; }
h2 {
  font-size: 1.25rem; line-height: 1.3; margin: 2.75rem 0 .75rem; padding-top: .75rem;
  border-top: 2px solid var(--leaf);
}
.subtitle { color: var(--soft); margin: 0 0 1.5rem; }
p { margin: .6rem 0; max-width: 44rem; }
.finding {
  background: var(--good); border-left: 4px solid var(--leaf); border-radius: 4px;
  padding: .75rem 1rem; margin: .75rem 0; max-width: none;
}
code, pre { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .9em; overflow-wrap: anywhere; }
pre {
  background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: .75rem;
  font-size: .8rem; line-height: 1.45; margin: .75rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table {
  border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums;
  font-size: .9rem;
}
figcaption {
  text-align: left; color: var(--soft); font-size: .85rem; padding: 0 0 .4rem; line-height: 1.4;
}
th, td { padding: .35rem .6rem; text-align: right; vertical-align: top; white-space: nowrap; }
th.word, td.word { text-align: left; }
td.word { white-space: normal; min-width: 6.5rem; }
thead th {
  border-bottom: 2px solid var(--rule); font-weight: 600; white-space: normal;
  vertical-align: bottom;
}
tbody tr + tr > * { border-top: 1px solid var(--rule); }
tbody tr > :first-child, thead tr > :first-child {
  position: sticky; left: 0; background: var(--paper); z-index: 1;
}
td.best, td.strong { font-weight: 700; }
td.best { color: var(--leaf); }
td small { display: block; color: var(--soft); font-weight: 400; font-size: .72rem; }
figure { margin: 1rem 0 1.5rem; }
.legend {
  display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .85rem; margin: .25rem 0 .6rem;
}
.legend i {
  display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem;
}
.bars {
  display: grid; grid-template-columns: max-content 1fr; gap: .5rem .75rem;
  align-items: center;
}
.bars > b { font-size: .85rem; font-weight: 600; text-align: right; }
.bars svg { display: block; width: 100%; overflow: visible; }
.bars .scale {
  color: var(--soft); font-size: .75rem; display: flex; justify-content: space-between;
}
.charts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr));
  gap: 1rem;
}
.charts svg {
  display: block; width: 100%; height: auto; background: var(--card); border-radius: 6px;
}
svg text { fill: var(--soft); font-size: 10.5px; font-family: inherit; }
svg .title { fill: var(--ink); font-size: 12px; font-weight: 600; }
.picture {
  background: #fff; border: 1px solid var(--rule); border-radius: 6px; overflow: auto;
  padding: .5rem;
}
.picture img {
  display: block; margin: 0 auto; max-width: none; width: max(100%, 36rem); height: auto;
}
.example { margin: 1rem 0 1.5rem; break-inside: avoid; }
.example h3 { font-size: .9rem; margin: 0 0 .35rem; overflow-wrap: anywhere; }
.hearing { margin: .35rem 0 .7rem; }
.hearing > span { color: var(--soft); font-size: .8rem; }
.pairs { display: flex; flex-wrap: wrap; row-gap: .3rem; font-size: .95rem; line-height: 1.3; }
.pairs > span {
  display: inline-grid; justify-items: center; min-width: .75em; padding: 0 .06em;
  white-space: pre;
}
.pairs.per > span { min-width: 1.5em; padding: 0 .2em; }
.pairs .substitution { background: var(--substitution); }
.pairs .deletion { background: var(--deletion); }
.pairs .insertion { background: var(--insertion); }
.key b { font-weight: 400; padding: 0 .35em; border-radius: 3px; }
.key .substitution { background: var(--substitution); }
.key .deletion { background: var(--deletion); }
.key .insertion { background: var(--insertion); }
details {
  border: 1px solid var(--rule); border-radius: 6px; padding: .5rem .9rem; margin: .75rem 0;
}
summary { cursor: pointer; font-weight: 600; padding: .25rem 0; }
footer { margin-top: 3rem; color: var(--soft); font-size: .8rem; }
@media print {
  :root { color-scheme: light; }
  @page { margin: 16mm 14mm; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h1, h2, h3, figcaption { break-after: avoid; }
  figure:not(.table), tr, .finding { break-inside: avoid; }
  .scroll, .picture { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: .2rem .35rem; }
  .picture img { width: 100%; }
  details { border: 0; padding: 0; }
  details::details-content { content-visibility: visible; block-size: auto; }
  pre { font-size: 7.5pt; }
}
"""
