// The page's words: all of them stand in words.json, which can be translated.

let words = {};

export async function loadWords() {
  words = await (await fetch("/page/words.json")).json();
  document.documentElement.lang = words.lang;
  document.documentElement.dir = words.dir;
  fillWords(document);
}

// t("facts", {duration: "2 s"}) puts values where {duration} stands.
export function t(key, values = {}) {
  const text = words[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

export function fillWords(root) {
  for (const element of root.querySelectorAll("[data-word]")) {
    element.textContent = t(element.dataset.word);
  }
}

export function percent(probability) {
  const digits =
    probability > 0 && probability < 0.01
      ? { maximumSignificantDigits: 1 }
      : { maximumFractionDigits: probability > 0.995 && probability < 1 ? 1 : 0 };
  return new Intl.NumberFormat(words.lang, { style: "percent", ...digits }).format(probability);
}

// An error rate, such as 12.3 %.
export function share(value) {
  const style = { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return new Intl.NumberFormat(words.lang, style).format(value);
}

// The difference of two error rates, with its sign.
export function points(difference) {
  const style = { signDisplay: "exceptZero", minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return new Intl.NumberFormat(words.lang, style).format(100 * difference);
}

export function number(value) {
  return new Intl.NumberFormat(words.lang, { maximumSignificantDigits: 2 }).format(value);
}

export function duration(seconds) {
  const isLong = seconds >= 60;
  const style = { style: "unit", unit: isLong ? "minute" : "second", maximumFractionDigits: isLong ? 1 : 0 };
  return new Intl.NumberFormat(words.lang, style).format(isLong ? seconds / 60 : seconds);
}

export function clock(seconds) {
  const whole = Math.floor(seconds);
  const minutes = String(Math.floor(whole / 60) % 60);
  const rest = String(whole % 60).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  return hours ? `${hours}:${minutes.padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

export function languageName(code) {
  try {
    return new Intl.DisplayNames([words.lang], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

export function dateTime(moment) {
  const style = { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(words.lang, style).format(new Date(moment));
}
