"use strict";
/* calibrant: apply an exported calibrator (.json) to rows of scores, in Node and in browsers.

     const { run } = require("./interpreter.js");        // in a browser: globalThis.calibrant.run
     run(JSON.parse(text), [[0.7, 0.2, 0.1]]);           // one row of probabilities per row of scores

   Columns of the result have the order of "classes". A map of one column takes the score of the second class. Arithmetic is float64; for "float_type": "float32", values are
   rounded to float32 where the Python library does so. A row that is no row of scores throws a RangeError. */
(() => {
  const FORMAT = "calibrant graph";
  const VERSION = 1;
  const ROW_SUM_TOLERANCE = 1e-3;
  const FLOAT64 = { round: (x) => x, tiny: 2 ** -1022, epsilon: 2 ** -52 };
  const FLOAT32 = { round: Math.fround, tiny: 2 ** -126, epsilon: 2 ** -23 };

  const number = (x) => (x === "Infinity" ? Infinity : x === "-Infinity" ? -Infinity : x);
  const isEmpty = (x) => typeof x === "object" && x !== null && "empty" in x;
  // A parameter: one number for all columns, or one per column.
  const parameter = (given, round) => {
    const numbers = isEmpty(given) ? [] : (Array.isArray(given) ? given : [given]).map((x) => round(number(x)));
    return numbers.length === 1 ? () => numbers[0] : (column) => numbers[column];
  };
  const vector = (given, round = (x) => x) => (isEmpty(given) ? [] : given.map((x) => round(number(x))));

  const largest = (x) => x.reduce((a, b) => (b > a ? b : a), -Infinity);
  const smallest = (x) => x.reduce((a, b) => (b < a ? b : a), Infinity);
  const sum = (x) => x.reduce((a, b) => a + b, 0);
  const argmax = (x) => x.indexOf(largest(x));
  const logSumExp = (x) => {
    const top = largest(x);
    return top + Math.log(sum(x.map((each) => Math.exp(each - top))));
  };
  const logAddExp = (x, y) => (x === y ? x + Math.LN2 : Math.max(x, y) + Math.log1p(Math.exp(-Math.abs(x - y))));
  const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

  const bits64 = new BigInt64Array(1);
  const double = new Float64Array(bits64.buffer);
  const bits32 = new Int32Array(1);
  const single = new Float32Array(bits32.buffer);
  /** The next larger float. */
  const nextAbove = (x, type) => {
    const [bits, float, one] = type === FLOAT32 ? [bits32, single, 1] : [bits64, double, 1n];
    float[0] = x === 0 ? 0 : x;
    bits[0] += x < 0 ? -one : one;
    return float[0];
  };

  const FUNCTIONS = {
    exp: Math.exp,
    sigmoid,
    "log-sigmoid": (x) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))),
    softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
    absolute: Math.abs,
    square: (x) => x * x,
    "square-root": Math.sqrt,
    relu: (x) => Math.max(x, 0),
    elu: (x) => (x > 0 ? x : Math.expm1(x)),
    tanh: Math.tanh,
    reciprocal: (x) => 1 / x,
  };

  const ARITHMETIC = {
    add: (x, y) => x + y,
    subtract: (x, y) => x - y,
    multiply: (x, y) => x * y,
    divide: (x, y) => x / y,
    minimum: Math.min,
    maximum: Math.max,
  };

  const divided = (row) => {
    const total = sum(row);
    return row.map((x) => x / total);
  };
  const NORMALISATIONS = {
    divide: divided,
    // Newton's method inside a bracket for the shift of all log-odds with which the row sums to one.
    shift: (row) => {
      let odds = row.map((p) => (p >= 1 ? 40 : p <= 0 ? -Infinity : Math.min(Math.log(p) - Math.log1p(-p), 40)));
      const top = largest(odds);
      odds = odds.map((x) => Math.max(x - top, -80));
      const base = Math.log(Math.max(row.length - 1, 1));
      let [low, high] = [smallest(odds) + base, base];
      let shift = Math.min(Math.max(-top, low), high);
      let shifted;
      for (let step = 0; step < 100; step += 1) {
        shifted = odds.map((x) => sigmoid(x - shift));
        const excess = sum(shifted) - 1;
        if (excess > 0) low = shift;
        else high = shift;
        if (Math.abs(excess) < 1e-14 * row.length) break;
        const newton = shift + excess / sum(shifted.map((p) => p * (1 - p)));
        shift = newton > low && newton < high ? newton : (low + high) / 2;
      }
      return divided(shifted);
    },
    project: (row) => {
      const descending = [...row].sort((a, b) => b - a);
      let [total, excess] = [0, 0];
      descending.forEach((x, place) => {
        total += x;
        if (x > (total - 1) / (place + 1)) excess = (total - 1) / (place + 1);
      });
      return divided(row.map((x) => Math.max(x - excess, 0)));
    },
  };

  const restore = {
    argmax: (values, reference, type) => {
      const [wanted, first] = [argmax(reference), argmax(values)];
      if (wanted === first) return values;
      const result = [...values];
      result[wanted] = first < wanted ? nextAbove(values[first], type) : values[first];
      return result;
    },
    order: (values, reference, type) => {
      const result = [...values];
      const order = values.map((_, column) => column).sort((a, b) => reference[a] - reference[b] || a - b);
      for (let place = 1; place < order.length; place += 1) {
        const [below, own] = [order[place - 1], order[place]];
        if (reference[own] === reference[below]) result[own] = result[below];
        else if (result[own] <= result[below]) result[own] = nextAbove(result[below], type);
      }
      return result;
    },
  };

  /** How many of the knots from start to stop are not above x (closed on the left), or below x. */
  const countKnots = (knots, start, stop, x, isLeft) => {
    let [low, high] = [start, stop];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isLeft ? knots[middle] <= x : knots[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low - start;
  };

  /* Every operation: (parameters, type of the result, types of the values) => (values of a row) => result.
     The type rounds results; that of operations on float64 values does nothing. */
  const OPERATIONS = {
    affine: (node, { round }) => {
      const [scale, shift] = [parameter(node.scale, round), parameter(node.shift, round)];
      return (x) => x.map((each, column) => round(round(each * scale(column)) + shift(column)));
    },
    arithmetic: (node, { round }) => {
      const f = ARITHMETIC[node.function];
      return (x, y) => {
        const at = (value, column) => value[value.length === 1 ? 0 : column];
        return (x.length > y.length ? x : y).map((_, column) => round(f(at(x, column), at(y, column))));
      };
    },
    "bound-gaps": (node, { round, tiny, epsilon }) => {
      const least = round(Math.log(tiny));
      return (x) => {
        const top = largest(x);
        if (smallest(x) - top >= least) return x;
        if (Math.abs(top) * epsilon > 0.01) return x.map((each) => Math.max(round(each - top), least));
        return x.map((each) => Math.max(each, round(top + least)));
      };
    },
    clip: (node, { round }) => {
      const [low, high] = [parameter(node.low, round), parameter(node.high, round)];
      return (x) => x.map((each, column) => Math.min(Math.max(each, low(column)), high(column)));
    },
    columns: (node) => (x) => node.columns.map((column) => x[column]),
    constant: (node, { round }) => {
      const numbers = vector(node.numbers, round);
      return () => numbers;
    },
    "cumulative-sum": (node, { round }) => (x) => {
      let total = 0;
      return x.map((each) => (total = round(total + each)));
    },
    dense: (node, { round }) => {
      const weights = node.weights.map((row) => vector(row, round));
      const intercept = vector(node.intercept, round);
      return (x) => intercept.map((shift, k) => round(round(x.reduce((total, each, j) => total + each * weights[j][k], 0)) + shift));
    },
    "first-of-least": (node, { round }) => (x) => {
      const least = round(smallest(x) + node.tolerance);
      const chosen = x.findIndex((each) => each <= least);
      return x.map((_, column) => Number(column === chosen));
    },
    floor: (node, type) => (x) => {
      const least = Math.max(node.floor, type.tiny);
      if (node.only_zeros ? !x.includes(0) : smallest(x) >= least) return x;
      const raised = x.map((each) => Math.max(each, type.round(least)));
      const total = type.round(sum(raised));
      return restore.argmax(raised.map((each) => type.round(each / total)), x, type);
    },
    function: (node, { round }) => {
      const f = FUNCTIONS[node.function];
      return (x) => x.map((each) => round(f(each)));
    },
    join: (node) => (...values) => {
      const together = values.flat();
      return node.columns.map((column) => together[column]);
    },
    log: (node, { round }) => {
      const least = round(Math.log(node.floor));
      return (x) => x.map((each) => (each > 0 ? Math.max(round(Math.log(each)), least) : least));
    },
    "log-softmax": (node, { round }) => (x) => {
      const top = largest(x);
      const gaps = x.map((each) => round(each - top));
      const total = round(Math.log(round(sum(gaps.map((gap) => round(Math.exp(gap)))))));
      return gaps.map((gap) => round(gap - total));
    },
    mixture: (node, { round }) => {
      const weights = vector(node.weights, round);
      return (...values) => values[0].map((_, column) => values.reduce((total, value, i) => round(total + round(value[column] * weights[i])), 0));
    },
    narrow: (node, { round, tiny }) => (x) => x.map((each) => (node.keep_positive && each !== 0 ? Math.max(round(each), tiny) : round(each))),
    normalise: (node, { round }) => (separate, fallback) => NORMALISATIONS[node.how](largest(separate) === 0 ? fallback : separate).map(round),
    piecewise: (node, type, [own]) => {
      const knots = vector(node.knots, own.round);
      const [origins, coefficients] = [vector(node.origins), node.coefficients.map((row) => vector(row))];
      const [lower, upper] = [node.lower && vector(node.lower), node.upper && vector(node.upper)];
      const isShared = node.n_knots.length === 1;
      const starts = [0];
      for (const count of node.n_knots) starts.push(starts[starts.length - 1] + count);
      return (x) => x.map((each, column) => {
        const curve = isShared ? 0 : column;
        const segment = starts[curve] + curve + countKnots(knots, starts[curve], starts[curve + 1], each, node.closed === "left");
        const offset = each - origins[segment];
        let y = 0;
        // Steps have no slope, which an infinite offset would turn into no number.
        for (let degree = coefficients.length - 1; degree >= 0; degree -= 1) y = (degree < coefficients.length - 1 ? y * offset : 0) + coefficients[degree][segment];
        if (lower) y = Math.max(y, lower[segment]);
        return upper ? Math.min(y, upper[segment]) : y;
      });
    },
    ramps: (node, { round }) => {
      const [knots, slopes] = [vector(node.knots, round), vector(node.slopes, round)];
      if (!knots.length) return (x) => x.map((each) => round(each * slopes[0]));
      const exact = vector(node.slopes);
      const constant = round(sum(vector(node.knots).map((knot, j) => exact[j + 1] * knot)));
      return (x) => x.map((each) => {
        let bent = 0;
        knots.forEach((knot, j) => {
          bent = round(bent + round(Math.min(Math.max(each, knot), j + 1 < knots.length ? knots[j + 1] : Infinity) * slopes[j + 1]));
        });
        return round(round(Math.min(round(each - knots[0]), 0) * slopes[0]) + round(bent - constant));
      });
    },
    "rest-of-classes": (node) => (x) => {
      const [place, rest] = [argmax(x), restOfLargest(x, node.logits)];
      if (!node.logits) return x.map((each, column) => (column === place ? rest : x[place] + rest - each));
      const total = logAddExp(x[place], rest);
      return x.map((each, column) => (column === place ? rest : total + Math.log1p(-Math.exp(Math.min(each - total, 0)))));
    },
    "rest-of-largest": (node) => (x) => [restOfLargest(x, node.logits), largest(x)],
    restore: (node, type) => (values, reference) => restore[node.kept](values, reference, type),
    restrict: (node, { round }) => (x) => {
      const chosen = node.columns.map((column) => x[column]);
      const total = round(sum(chosen));
      return chosen.map((each) => round(total > 0 ? each / total : 1 / chosen.length));
    },
    "row-reduce": (node, { round }) => (x) => {
      if (node.function === "max") return [largest(x)];
      const total = round(sum(x));
      return [node.function === "mean" ? round(total / x.length) : total];
    },
    "set-largest": (node) => ([rest, confidence], scores) => {
      const place = argmax(scores);
      const top = largest(scores.filter((_, column) => column !== place));
      const parts = scores.map((each, column) => (column === place ? 0 : node.logits ? Math.exp(each - top) : Math.max(each, node.floor)));
      const total = sum(parts);
      return parts.map((part, column) => (column === place ? confidence : rest > 0 ? Math.max((part / total) * rest, FLOAT64.tiny) : 0));
    },
    softmax: (node, { round }) => (x) => {
      const top = largest(x);
      const powers = x.map((each) => round(Math.exp(round(each - top))));
      const total = round(sum(powers));
      return powers.map((power) => round(power / total));
    },
    "sort-descending": (node) => (x) => [...x].sort((a, b) => b - a).slice(0, node.n_largest),
    switch: (node) => {
      const branches = node.branches.map((branch) => compiled(branch, FLOAT64));
      return (x, selector) => branches[node.branch_of_column[argmax(selector)]](x);
    },
    "tree-means": (node) => {
      const counts = vector(node.n_splits);
      const [columns, thresholds, values] = [vector(node.columns), vector(node.thresholds), node.values];
      return (x) => {
        const totals = values[0].map(() => 0);
        let [firstSplit, firstLeaf] = [0, 0];
        for (const count of counts) {
          let place = count ? 0 : -1;
          while (place >= 0) {
            const split = firstSplit + place;
            place = node.children[split][x[columns[split]] < thresholds[split] ? 0 : 1];
          }
          values[firstLeaf + ~place].forEach((each, column) => { totals[column] += each; });
          firstSplit += count;
          firstLeaf += count + 1;
        }
        return totals.map((total) => total / counts.length);
      };
    },
    unsort: () => (values, reference) => {
      const order = reference.map((_, column) => column).sort((a, b) => reference[b] - reference[a] || a - b);
      const result = [];
      order.forEach((column, place) => { result[column] = values[place]; });
      return result;
    },
    widen: () => (x) => x,
  };

  const restOfLargest = (x, logits) => {
    const place = argmax(x);
    const others = x.filter((_, column) => column !== place);
    return logits ? logSumExp(others) : sum(others);
  };

  const WIDE = ["piecewise", "rest-of-classes", "rest-of-largest", "set-largest", "switch", "tree-means", "widen"];

  /** Return a function from a row to the output of a graph. */
  const compiled = (graph, type) => {
    const types = [type];
    const steps = graph.operations.map((node) => {
      const make = Object.hasOwn(OPERATIONS, node.operation) ? OPERATIONS[node.operation] : null;
      if (!make) throw new TypeError(`there is no operation ${JSON.stringify(node.operation)}; use a newer interpreter.js`);
      const given = node.of.map((source) => types[source]);
      const compared = ["restore", "unsort"].includes(node.operation) ? given.slice(0, 1) : given;
      const isWide = WIDE.includes(node.operation) || (node.operation !== "narrow" && compared.includes(FLOAT64));
      types.push(isWide ? FLOAT64 : type);
      return { of: node.of, apply: make(node, types[types.length - 1], given) };
    });
    return (row) => {
      const values = [row];
      for (const step of steps) values.push(step.apply(...step.of.map((source) => values[source])));
      return values[values.length - 1];
    };
  };

  const checked = (row, place, graph, round) => {
    if (!(Array.isArray(row) || ArrayBuffer.isView(row)) || row.length !== graph.columns) {
      throw new RangeError(`row ${place} must have ${graph.columns} numbers`);
    }
    const numbers = Array.from(row, (x) => (typeof x === "number" ? round(x) : NaN));
    if (!numbers.every(Number.isFinite)) throw new RangeError(`row ${place} must have finite numbers`);
    if (graph.space === "probabilities" && graph.columns === 1 && !(numbers[0] >= 0 && numbers[0] <= 1)) {
      throw new RangeError(`row ${place} must hold a probability from 0 to 1`);
    }
    if (graph.space === "probabilities" && graph.columns > 1 && !(smallest(numbers) >= 0 && Math.abs(sum(numbers) - 1) <= ROW_SUM_TOLERANCE)) {
      throw new RangeError(`row ${place} must hold probabilities that are not negative and sum to 1 within ${ROW_SUM_TOLERANCE}`);
    }
    return numbers;
  };

  /** Return calibrated probabilities, one row of numbers per row of scores. */
  const run = (json, rows) => {
    const content = typeof json === "string" ? JSON.parse(json) : json;
    if (content === null || typeof content !== "object" || content.format !== FORMAT) throw new TypeError(`this is not a ${FORMAT}`);
    if (content.version > VERSION) throw new TypeError(`the graph has version ${content.version}; this interpreter.js reads ${VERSION}`);
    const type = content.float_type === "float32" ? FLOAT32 : FLOAT64;
    const apply = compiled(content.graph, type);
    return Array.from(rows, (row, place) => Array.from(apply(checked(row, place, content.graph, type.round))));
  };

  const calibrant = { run };
  if (typeof module === "object" && module.exports) module.exports = calibrant;
  else globalThis.calibrant = calibrant;
})();
