// Functions that read a request as programs behind the gateway do: a path of the invoke protocol, or a name or a URI over
// MCP. Each returns the tools or the resource that the program would run or open.

/** `name@version` of the tools that a server behind `path` may run; empty if it responds with 404. */
export type PathReader = (path: string) => string[]
/** The resource that a program opens for the URI; undefined if it refuses the URI. */
export type UriReader = (uri: string) => string | undefined

const INVOKE = '/billing/invoke/'

/** Decodes once like Python's `unquote`: bytes that are not UTF-8 become U+FFFD, a malformed escape stays. */
export function unquote(text: string): string {
  return text.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString(),
  )
}

/** POSIX: resolves dots, merges slashes, drops the one at the end. */
function normpath(path: string): string {
  const out: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') out.pop()
    else if (segment !== '' && segment !== '.') out.push(segment)
  }
  return `/${out.join('/')}`
}

/** RFC 3986 §5.2.4, which keeps empty segments. */
function removeDots(path: string): string {
  const out: string[] = []
  const segments = path.split('/')
  for (const [i, segment] of segments.entries()) {
    if (segment === '..' && out.length > 1) out.pop()
    if (segment !== '..' && segment !== '.') out.push(segment)
    else if (i === segments.length - 1) out.push('')
  }
  return out.join('/')
}

const withoutQuery = (path: string) => path.split('?', 1)[0] ?? ''

/** The tool of a decoded path, split at the first "@" and at the last; only a version makes it one. */
function toolsIn(path: string): string[] {
  if (!path.startsWith(INVOKE)) return []
  const tool = path.slice(INVOKE.length)
  return [tool.indexOf('@'), tool.lastIndexOf('@')]
    .filter((at) => at > 0 && /^[A-Za-z0-9._+-]+$/.test(tool.slice(at + 1)))
    .map((at) => `${tool.slice(0, at)}@${tool.slice(at + 1)}`)
}

function nginx(path: string): string {
  return normpath(unquote(withoutQuery(path)))
}

export const pathReaders: Readonly<Record<string, PathReader>> = {
  'nginx, then a program that does not decode': (path) => toolsIn(nginx(path)),
  'nginx, then Python': (path) => toolsIn(normpath(unquote(withoutQuery(nginx(path))))),
  'Python: unquote, normpath': (path) => toolsIn(normpath(unquote(withoutQuery(path)))),
  'Python on Windows': (path) => toolsIn(normpath(unquote(withoutQuery(path)).replaceAll('\\', '/'))),
  'Node URL': (path) => {
    const url = `http://upstream${path}`
    return URL.canParse(url) ? toolsIn(decoded(new URL(url).pathname)) : []
  },
  'RFC 3986': (path) => toolsIn(decoded(removeDots(withoutQuery(path)))),
}

export const nameReaders: Readonly<Record<string, (name: string) => string>> = {
  'a registry': (name) => name,
  'a registry in NFC': (name) => name.normalize('NFC'),
}

const COMPONENTS = /^(?:([^:/?#]+):)?(?:\/\/([^/?#]*))?([^?#]*)/s

export const uriReaders: Readonly<Record<string, UriReader>> = {
  'Node URL': (uri) => {
    if (!URL.canParse(uri)) return undefined
    const { protocol, host, pathname } = new URL(uri)
    return `${protocol}//${host}${decoded(pathname)}`
  },
  'Python: urlsplit, unquote, normpath': (uri) => python(uri, (path) => unquote(path)),
  'Python, decoding twice': (uri) => python(uri, (path) => unquote(unquote(path))),
  'Python on Windows': (uri) => python(uri, (path) => unquote(path).replaceAll('\\', '/')),
  'RFC 3986': (uri) => {
    const [, scheme = '', authority = '', path = ''] = COMPONENTS.exec(uri) ?? []
    return `${scheme.toLowerCase()}://${hostOf(scheme, authority)}${decoded(removeDots(path))}`
  },
  'a program in C': (uri) => uriReaders['RFC 3986']?.(uri)?.split('\0', 1)[0],
  'a program that composes': (uri) => uriReaders['RFC 3986']?.(uri)?.normalize('NFC'),
}

function python(uri: string, read: (path: string) => string): string {
  const [, scheme = '', authority = '', path = ''] = COMPONENTS.exec(uri.trim()) ?? []
  const opened = read(path)
  // An HTTP client keeps the slash at the end.
  const end = scheme.toLowerCase() !== 'file' && opened.endsWith('/') && normpath(opened) !== '/' ? '/' : ''
  return `${scheme.toLowerCase()}://${hostOf(scheme, authority)}${normpath(opened)}${end}`
}

/** RFC 3986 §6.2.2 and §6.2.3 for schemes with hosts; other authorities are names that only the server knows. */
function hostOf(scheme: string, authority: string): string {
  const named = authority.slice(authority.lastIndexOf('@') + 1)
  if (!/^(?:https?|file)$/i.test(scheme)) return named
  const host = unquote(named).toLowerCase()
  return host.replace(scheme.toLowerCase() === 'http' ? /:80$/ : /:443$/, '').replace(/\.$/, '')
}

function decoded(text: string): string {
  return unquote(text)
}
