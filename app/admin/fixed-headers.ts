/**
 * Headers of every response of the listener. Responses have current state and personal data: a browser must not cache them,
 * read them as another type, run what they show, or let pages of another origin use them. Pages have a policy of their own.
 */
export const fixedHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const
