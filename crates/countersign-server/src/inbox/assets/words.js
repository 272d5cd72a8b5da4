// Words of the scripts in the language of the page.

const SPANISH = {
  "The service did not understand.": "El servicio no lo ha entendido.",
  "The service did not answer, so it may or may not have heard you.": "El servicio no ha contestado, así que no se sabe si te ha oído.",
  "The service did not answer, so it may or may not have heard you. Trying again is safe.": "El servicio no ha contestado, así que no se sabe si te ha oído. Puedes probar otra vez sin riesgo.",
  "Connection lost, trying again…": "Sin conexión, probando otra vez…",
  "Connected again": "Conectado otra vez",
  "You are signed out. Sign in": "Has salido. Entrar",
  "Signed out": "Has salido",
  "Nothing waits for you.": "Nada te espera.",
  "1 waits": "1 espera",
  "{n} wait": "{n} esperan",
  "Inbox": "Bandeja",
  "time is up": "se acabó el tiempo",
  "{time} left": "quedan {time}",
  "Your comment was not sent: {text}": "Tu comentario no se envió: {text}",
  "{n} new": "{n} nuevas",
  ", {n} of high risk": ", {n} de riesgo alto",
  "Something waits for your decision": "Algo espera tu decisión",
  "Not everything is shown. Press s to show all of it.": "No se ve todo. Pulsa s para verlo entero.",
  "Press a again to approve: {text}": "Pulsa a otra vez para aprobar: {text}",
  "{n} selected": "{n} seleccionadas",
  "{n} decided": "{n} decididas",
  ", {n} not decided": ", {n} sin decidir",
  "Select at least one card.": "Selecciona al menos una tarjeta.",
};

// Returns the words in the language of the page, with the values in place of their names.
export function t(english, values = {}) {
  let text = (document.documentElement.lang === "es" && SPANISH[english]) || english;
  for (const [name, value] of Object.entries(values)) text = text.split(`{${name}}`).join(value);
  return text;
}
