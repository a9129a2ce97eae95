// What the page asks of its server, and of no other.

const TOKEN = "arborvox-token";
const TRIES = 5;

export class ApiError extends Error {
  constructor(word, details = "") {
    super(word);
    this.word = word; // of words.json
    this.details = details;
  }
}

// The token comes after the # of the address, which no browser sends, or from the form.
export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    useToken(given);
    history.replaceState(null, "", location.pathname);
  }
}

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("error_network");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const details = answer.error ?? {};
  const error = new ApiError(wordFor(response.status, details), details.message);
  error.status = response.status;
  error.answer = answer;
  error.retryAfter = Number(response.headers.get("Retry-After")) || 1;
  throw error;
}

function wordFor(status, details) {
  if (status === 401) return "error_token";
  if (status === 413) return "error_size";
  if (status === 507) return "error_full";
  if (status === 429) return "error_still_busy";
  if (status === 503) return details.code === "stopping" ? "error_stopping" : "error_server";
  if (details.param === "file") return "error_file";
  return status >= 500 ? "error_server" : "error_request";
}

export async function listModels() {
  return (await (await ask("/v1/models")).json()).data;
}

export async function listExamples() {
  return (await ask("/v1/examples")).json();
}

export async function getExample(number) {
  return (await ask(`/v1/examples/${number}`)).blob();
}

const trees = new Map();

export function getTree(model) {
  if (!trees.has(model)) {
    const path = `/v1/models/${encodeURIComponent(model)}/tree`;
    trees.set(model, ask(path).then((response) => response.json()));
  }
  return trees.get(model);
}

// Sends a recording; while the server is busy it is tried again.
export async function transcribe(blob, name, choices, { signal, onBusy }) {
  for (let attempt = 1; ; attempt += 1) {
    const form = new FormData();
    form.append("model", choices.model);
    if (choices.language) form.append("language", choices.language);
    if (choices.inventory) form.append("inventory", choices.inventory);
    form.append("response_format", "verbose_json");
    form.append("timestamp_granularities[]", "segment");
    form.append("timestamp_granularities[]", "word");
    form.append("paths", "true");
    form.append("file", blob, name);
    try {
      const path = "/v1/audio/transcriptions";
      return await (await ask(path, { method: "POST", body: form, signal })).json();
    } catch (error) {
      if (error.status !== 429 || attempt === TRIES) throw error;
      onBusy();
      await new Promise((wake) => setTimeout(wake, 1000 * error.retryAfter));
    }
  }
}

export async function writeDocument(format, transcript) {
  const body = JSON.stringify(transcript);
  const options = { method: "POST", body, headers: { "Content-Type": "application/json" } };
  return (await ask(`/v1/documents/${format}`, options)).blob();
}

// Opens the socket for someone who speaks; `send` takes 16-bit samples.
export function listen(rate, choices, { onPartial, onResult, onError }) {
  const address = new URL("/v1/listen", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  const config = { sample_rate: rate, model: choices.model };
  if (choices.language) config.language = choices.language;
  if (choices.inventory) config.inventory = choices.inventory;
  const token = sessionStorage.getItem(TOKEN);
  if (token) config.token = token;
  const early = []; // samples from before the socket was open
  let isOpen = false;
  let hasEnded = false;
  const closed = new Promise((resolve) => {
    socket.onclose = () => {
      if (!hasEnded) onError(new ApiError("error_network"));
      resolve();
    };
  });
  socket.onopen = () => {
    socket.send(JSON.stringify({ config }));
    for (const samples of early.splice(0)) socket.send(samples);
    isOpen = true;
    if (hasEnded) socket.send('{"eof": 1}');
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.error) {
      hasEnded = true;
      const status = { authentication_error: 401, rate_limit_error: 429 }[message.error.type];
      onError(new ApiError(wordFor(status ?? 400, message.error), message.error.message));
    } else if ("text" in message) onResult(message.text);
    else onPartial(message.partial);
  };
  return {
    send(samples) {
      if (isOpen && socket.readyState === WebSocket.OPEN) socket.send(samples);
      else if (!isOpen) early.push(samples);
    },
    finish() {
      hasEnded = true;
      if (isOpen && socket.readyState === WebSocket.OPEN) socket.send('{"eof": 1}');
      return closed;
    },
  };
}
