// How numbers are written: a unit that fits, three digits that count, and "–" for what is undefined.

const NONE = "–";
const MOST_DIGITS = 20; // after the point: as many as every browser writes
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function digits(value, count) {
  const whole = Math.floor(Math.log10(Math.abs(value) || 1)) + 1;
  return Math.min(Math.max(0, count - (whole < 0 ? whole : Math.max(whole, 1))), MOST_DIGITS);
}

const decimal = (value, places) =>
  value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });

function number(value, count = 3) {
  if (!isNumber(value)) return NONE;
  return decimal(value, Number.isInteger(value) ? 0 : digits(value, count));
}

// {factor, unit} in which a time of this size is written.
function timeUnit(seconds) {
  const size = Math.abs(seconds);
  if (size >= 0.9995) return { factor: 1, unit: "s" };
  return size >= 0.9995e-3 || size === 0 ? { factor: 1e3, unit: "ms" } : { factor: 1e6, unit: "µs" };
}

// [digits, unit]
function timeParts(seconds, count = 3) {
  if (!isNumber(seconds)) return [NONE, ""];
  const { factor, unit } = timeUnit(seconds);
  const value = seconds * factor;
  return [decimal(value, value === 0 ? 0 : digits(Math.abs(value) < 1 ? 1 : value, count)), unit];
}

const time = (seconds, count) => timeParts(seconds, count).join("\u00a0").trim();
// A time that was chosen, not measured: without zeros that say nothing, in the unit that fits it, or `size`.
function exactTime(seconds, size = seconds) {
  const { factor, unit } = timeUnit(size);
  return `${+(seconds * factor).toPrecision(6)}\u00a0${unit}`;
}

const clock = (seconds) => `${decimal(seconds, 2)}\u00a0s`;

function share(value, places = 1) {
  if (!isNumber(value)) return NONE;
  // what is not all is never rounded up to all, and what is something never down to nothing
  const factor = 100 * 10 ** places;
  const rounded = Math.round(value * factor) / factor;
  const kept = value < 1 && rounded >= 1 ? 1 - 1 / factor : value > 0 && rounded <= 0 ? 1 / factor : rounded;
  return `${decimal(kept * 100, kept === 1 || kept === 0 ? 0 : places)}\u00a0%`;
}

// Half an interval as a part of its value: rounded, as it may well be nothing.
const plusMinus = (value) => `${decimal(100 * value, 1)}\u00a0%`;

const counted = (count, noun) => `${decimal(count, 0)} ${noun}${count === 1 ? "" : "s"}`;
const words = (name) => name.replace(/_s$/, "").replaceAll("_", " ");
