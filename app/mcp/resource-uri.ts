// Checks that URIs of resources are in normal form. Policies match their text, and a server resolves `..` or decodes
// `%73` before it reads: such a URI would be judged as one resource and read as another.

const path = /^[^?#]*/
const dotSegment = /(?:^|[/\\])\.\.?(?:[/\\]|$)/
/** Unreserved characters (RFC 3986 §2.3), which are never encoded in the normal form. */
const encodedPlain = /%(?:2[de]|3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])/i
const scheme = /^[A-Za-z][A-Za-z0-9+.-]*(?=:)/

/** Whether the URI, or URI template, is in the normal form of RFC 3986 §6.2.2 as far as two spellings could differ. */
export function isNormalUri(uri: string): boolean {
  if (encodedPlain.test(uri) || dotSegment.test(path.exec(uri)?.[0] ?? '')) return false
  const [named] = scheme.exec(uri) ?? []
  return named === undefined || named === named.toLowerCase()
}
