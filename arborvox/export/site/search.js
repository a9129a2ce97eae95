// What is searched for in a model's scores: leaves of a tree, transcripts by CTC, their times.
// The same algorithms as in arborvox/decode and arborvox/runtime; sums are kept in double precision.

const NEVER = -Infinity;
const EOS = 0;

export function logAdd(a, b) {
  const high = Math.max(a, b);
  const low = Math.min(a, b);
  return low === NEVER ? high : high + Math.log1p(Math.exp(low - high));
}

// The k best leaves of a tree, best nodes first: probabilities only fall along a path, so the leaf
// that leaves the queue k-th is the k-th best. c >= 0 is an inner node, c < 0 is leaf ~c.
export function bestLeaves(gates, left, right, k) {
  const queue = [];
  const before = (a, b) =>
    a.cost !== b.cost ? a.cost < b.cost : a.leaf !== b.leaf ? b.leaf : a.node < b.node;
  const push = (entry) => {
    let place = queue.push(entry) - 1;
    while (place > 0 && before(entry, queue[(place - 1) >> 1])) {
      queue[place] = queue[(place - 1) >> 1];
      place = (place - 1) >> 1;
    }
    queue[place] = entry;
  };
  const pop = () => {
    const top = queue[0];
    const last = queue.pop();
    let place = 0;
    for (let child = 1; child < queue.length; child = 2 * place + 1) {
      if (child + 1 < queue.length && before(queue[child + 1], queue[child])) child += 1;
      if (!before(queue[child], last)) break;
      queue[place] = queue[child];
      place = child;
    }
    if (queue.length) queue[place] = last;
    return top;
  };
  push({ cost: 0, leaf: false, node: 0 });
  const found = [];
  while (found.length < k && queue.length) {
    const { cost, leaf, node } = pop();
    if (leaf) {
      found.push([-cost, node]);
      continue;
    }
    const gate = gates[node];
    const shared = cost + Math.log1p(Math.exp(-Math.abs(gate)));
    for (const [child, turn] of [
      [left[node], Math.max(-gate, 0)],
      [right[node], Math.max(gate, 0)],
    ]) {
      push({ cost: shared + turn, leaf: child < 0, node: child < 0 ? ~child : child });
    }
  }
  return found;
}

// log P of all leaves of one row of gates; inner nodes are numbered in level order.
export function leafLogProbs(gates, left, right) {
  const reached = new Float64Array(left.length);
  const leaves = new Float32Array(left.length + 1);
  for (let node = 0; node < left.length; node++) {
    const gate = gates[node];
    const shared = reached[node] - Math.log1p(Math.exp(-Math.abs(gate)));
    const sides = [
      [left[node], shared + Math.min(gate, 0)],
      [right[node], shared - Math.max(gate, 0)],
    ];
    for (const [child, value] of sides) {
      if (child >= 0) reached[child] = value;
      else leaves[~child] = value;
    }
  }
  return leaves;
}

// The `count` best columns of a row, best first.
function bestColumns(row, count) {
  const order = Array.from(row.keys());
  order.sort((a, b) => row[b] - row[a] || a - b);
  return order.slice(0, count);
}

// Rows of log-probabilities, whatever the graph gives; and each row's best columns.
export function frameScores(scores, numFrames, width, tree) {
  const rows = [];
  for (let t = 0; t < numFrames; t++) {
    const row = scores.subarray(t * width, (t + 1) * width);
    rows.push(tree ? leafLogProbs(row, tree.left, tree.right) : row);
  }
  return rows;
}

export function frameCandidates(scores, rows, width, tree, count) {
  return rows.map((row, t) =>
    tree
      ? bestLeaves(scores.subarray(t * width, (t + 1) * width), tree.left, tree.right, count).map(
          ([, token]) => token,
        )
      : bestColumns(row, count),
  );
}

// CTC prefix beam search: the transcript that is best over all its alignments.
export function prefixBeam(rows, candidates, numBeams, lengthBonus = 0) {
  const blank = rows.length ? rows[0].length - 1 : 0;
  const root = { parent: null, token: -1, depth: 0, children: new Map() };
  let beam = [{ node: root, blank: 0, label: NEVER, total: 0 }];
  const extra = (node) => node.depth * lengthBonus;
  rows.forEach((row, t) => {
    const places = new Map(beam.map((entry) => [entry.node, entry]));
    const ranked = []; // best first, earlier ones first at ties
    const rank = (score, make) => {
      if (ranked.length === numBeams && score <= ranked[numBeams - 1].score) return;
      if (ranked.length === numBeams) ranked.pop();
      let place = ranked.length;
      while (place > 0 && ranked[place - 1].score < score) place -= 1;
      ranked.splice(place, 0, { score, make });
    };
    for (const entry of beam) {
      const { node } = entry;
      const stayBlank = entry.total + row[blank];
      let stayLabel = NEVER;
      if (node !== root) {
        const p = row[node.token];
        stayLabel = entry.label + p;
        const above = places.get(node.parent);
        if (above) {
          const reached = (node.parent.token === node.token ? above.blank : above.total) + p;
          stayLabel = logAdd(stayLabel, reached);
        }
      }
      rank(logAdd(stayBlank, stayLabel) + extra(node), () => ({
        node,
        blank: stayBlank,
        label: stayLabel,
      }));
    }
    for (const entry of beam) {
      const { node } = entry;
      for (const label of candidates[t]) {
        const p = row[label];
        if (label === blank || label === EOS || p === NEVER) continue;
        const grown = (label === node.token ? entry.blank : entry.total) + p;
        if (grown === NEVER) continue;
        const child = node.children.get(label);
        if (child && places.has(child)) continue;
        rank(grown + extra(node) + lengthBonus, () => {
          let made = node.children.get(label);
          if (!made) {
            made = { parent: node, token: label, depth: node.depth + 1, children: new Map() };
            node.children.set(label, made);
          }
          return { node: made, blank: NEVER, label: grown };
        });
      }
    }
    beam = ranked.map(({ make }) => {
      const entry = make();
      return { ...entry, total: logAdd(entry.blank, entry.label) };
    });
  });
  let best = beam[0];
  for (const entry of beam) {
    if (entry.total + extra(entry.node) > best.total + extra(best.node)) best = entry;
  }
  const tokens = [];
  for (let { node } = best; node !== root; node = node.parent) tokens.push(node.token);
  return { tokens: tokens.reverse(), score: best.total + extra(best.node) };
}

// The best alignment of tokens: first frame and past the last of each, and the mean log P there.
export function align(rows, tokens) {
  const T = rows.length;
  const S = 2 * tokens.length + 1;
  const blank = rows[0].length - 1;
  let score = new Float64Array(S).fill(NEVER);
  const from = new Int8Array(T * S);
  score[0] = rows[0][blank];
  if (S > 1) score[1] = rows[0][tokens[0]];
  for (let t = 1; t < T; t++) {
    const next = new Float64Array(S);
    for (let s = 0; s < S; s++) {
      const label = s % 2 ? tokens[s >> 1] : blank;
      let best = score[s];
      let steps = 0;
      if (s > 0 && score[s - 1] > best) [best, steps] = [score[s - 1], 1];
      if (s % 2 && s > 2 && tokens[(s >> 1) - 1] !== label && score[s - 2] > best) {
        [best, steps] = [score[s - 2], 2];
      }
      next[s] = best + rows[t][label];
      from[t * S + s] = steps;
    }
    score = next;
  }
  let state = S > 1 && score[S - 2] > score[S - 1] ? S - 2 : S - 1;
  if (score[state] === NEVER) return null;
  const found = tokens.map(() => ({ begin: 0, end: 0, mean: 0 }));
  for (let t = T - 1; t >= 0; t--) {
    if (state % 2) {
      const unit = found[state >> 1];
      if (!unit.end) unit.end = t + 1;
      unit.begin = t;
      unit.mean += rows[t][tokens[state >> 1]];
    }
    state -= from[t * S + state];
  }
  for (const unit of found) unit.mean /= unit.end - unit.begin;
  return found;
}
