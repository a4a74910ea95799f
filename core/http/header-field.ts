// Which header names and values a policy may use.

/** Headers of the connection and the body, in lower case. */
export const connectionFields: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** RFC 9110 §5.5 without obs-text, which servers interpret differently. */
export const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
