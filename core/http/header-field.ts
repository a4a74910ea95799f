// What may stand in a header that a policy names.

/** What the connection or the body needs under its own name; in lower case. */
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

/** RFC 9110 §5.5 without obs-text, whose meaning no two servers share. */
export const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
