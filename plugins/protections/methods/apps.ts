// Interfaces of tools (MCP Apps, SEP-1865): HTML that a client shows, with the hosts that it declares to contact.
import { isJsonObject } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { allowsHost, type UrlHost } from '../shared/url-hosts.js'

type Fields = Readonly<Record<string, unknown>>

const notShown = /[\s\p{C}]/gu

/** URI schemes have no case, and some clients leave out spaces and line breaks. */
export function isInterfaceUri(uri: unknown): boolean {
  return typeof uri === 'string' && foldName(uri.slice(0, 64).replace(notShown, '')).startsWith('ui:')
}

/** The types of MCP Apps, of the Apps SDK and of MCP-UI. */
const interfaceType = /profile\s*=\s*"?mcp-app|\+skybridge|vnd\.mcp-ui/i

/** Whether only interfaces may call the tool, by its definition. */
export function servesAppsAlone(definition: Fields): boolean {
  const { _meta: meta } = definition
  const ui = isJsonObject(meta) ? meta['ui'] : undefined
  const visibility = isJsonObject(ui) ? ui['visibility'] : undefined
  return Array.isArray(visibility) && visibility.includes('app') && !visibility.includes('model')
}

/** The interfaces in a value: resources with content, wherever clients may take them from. */
export function interfacesIn(value: unknown): Fields[] {
  const found: Fields[] = []
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== 'object' || next === null) continue
    if (isJsonObject(next) && isInterface(next)) found.push(next)
    for (const inner of Object.values(next)) if (typeof inner === 'object' && inner !== null) open.push(inner)
  }
  return found
}

function isInterface({ uri, mimeType, text, blob }: Fields): boolean {
  if (typeof uri !== 'string' || (text === undefined && blob === undefined)) return false
  return isInterfaceUri(uri) || (typeof mimeType === 'string' && interfaceType.test(mimeType))
}

/** The first host that an interface declares or is, and that the list does not allow. */
export function foreignOrigin(shown: Fields, allowed: readonly UrlHost[]): string | undefined {
  return declaredIn(shown).find((origin) => !goesNowhere.has(origin) && !allowsHost(origin, allowed))
}

const goesNowhere: ReadonlySet<string> = new Set(['data:', 'blob:', "'self'", "'none'"])

/** Clients allow an interface what it declares, and nothing else. */
function declaredIn({ _meta: meta, mimeType, text }: Fields): string[] {
  const { ui, 'openai/widgetCSP': former } = isJsonObject(meta) ? meta : {}
  const csp = isJsonObject(ui) ? ui['csp'] : undefined
  const declared = [csp, former].flatMap((lists) =>
    isJsonObject(lists) ? Object.values(lists).flat() : lists === undefined ? [] : [lists],
  )
  // Such a resource is a page elsewhere.
  const isElsewhere = typeof mimeType === 'string' && mimeType.toLowerCase().startsWith('text/uri-list')
  const lines = isElsewhere && typeof text === 'string' ? text.split(/\s+/).filter((line) => line !== '') : []
  return [...declared, ...lines].map((origin) =>
    typeof origin === 'string' ? origin : JSON.stringify(origin),
  )
}
