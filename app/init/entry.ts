// Reads the entry of one server in a client's configuration: a command or a URL, or the reason why it is left alone.
import { isAbsolute, resolve } from 'node:path'
import { connectionFields } from '@svc/core/http'
import { isJsonObject, isUrl } from '@svc/core/json'
import { brokersPlugin } from '@svc/plugin-brokers'
import { mayFetch, readNpx } from '../stdio/targets/environment.js'
import { isPrivateArgument, keepable } from './clients/private-values.js'

export interface CommandEntry {
  readonly kind: 'command'
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** The client puts variables into the command, so that it has to stay in the entry. */
  readonly isOfClient: boolean
}

export interface UrlEntry {
  readonly kind: 'url'
  readonly url: string
  /** At most one, because a broker sets one. */
  readonly header: { readonly name: string; readonly value: string } | undefined
}

/** `policy` is the file that the entry names. */
export interface GovernedEntry {
  readonly kind: 'governed'
  readonly policy: string | undefined
}

export interface UnsupportedEntry {
  readonly kind: 'unsupported'
  /** Quotes names of members, never values. */
  readonly reason: string
}

export type ServerEntry = CommandEntry | UrlEntry | GovernedEntry | UnsupportedEntry

/** The place of an entry. */
export interface EntryPlace {
  readonly platform: NodeJS.Platform
  /** The directory in which the client starts the command, if the file says it. */
  readonly directory: string | undefined
}

/** The client puts something else in the place of this. */
const clientVariable = /\$\{[^}]*\}/

export function hasClientVariable(text: string): boolean {
  return clientVariable.test(text)
}

/** Members with which a client does what `svc stdio` cannot take over. */
const unsupportedMembers: Readonly<Record<string, string>> = {
  envFile: 'its variables come from a file',
  headersHelper: 'a program gives its headers',
  oauth: 'the client signs in',
  auth: 'the client signs in',
}

export function readEntry(value: unknown, place: EntryPlace): ServerEntry {
  if (!isJsonObject(value)) return unsupported('not an object')
  const governed = governedBy(value)
  if (governed !== undefined) return governed
  for (const [member, reason] of Object.entries(unsupportedMembers)) {
    if (value[member] !== undefined) return unsupported(`${reason} (${member})`)
  }
  const { command, type } = value
  const url = value['url'] ?? value['serverUrl']
  if (command !== undefined && url !== undefined) return unsupported('it has a command and a URL')
  if (typeof url === 'string') return readUrl(url, type, value['headers'])
  if (typeof command === 'string') return readCommand(command, value, place)
  return unsupported('it has neither a command nor a URL')
}

function unsupported(reason: string): UnsupportedEntry {
  return { kind: 'unsupported', reason }
}

/** Reads an entry that starts through `svc stdio`, also one that a user wrote. Undefined for other entries. */
function governedBy({ command, args }: Readonly<Record<string, unknown>>): GovernedEntry | undefined {
  const words = [command, ...(Array.isArray(args) ? args : [])].map(String)
  const at = words.indexOf('stdio')
  const isOurs = words
    .slice(0, Math.max(at, 0))
    .some((word) => /(?:^|[\\/])svc(?:-sdk)?(?:\.(?:js|cmd))?(?:@[^/\\]*)?$/.test(word))
  if (!isOurs) return undefined
  const policy = words[words.indexOf('--policy', at) + 1]
  return { kind: 'governed', policy: words.includes('--policy', at) ? policy : undefined }
}

function readUrl(url: string, type: unknown, headers: unknown = {}): ServerEntry {
  if (type === 'sse' || /\/sse\/?$/.test(url)) return unsupported('HTTP with SSE of 2024-11-05')
  if (type !== undefined && !/^(?:streamable-?)?http$/i.test(String(type))) return unsupported('its type')
  if (hasClientVariable(url)) return unsupported('the client puts variables into its URL')
  if (!isUrl(url)) return unsupported('its URL is not one')
  const { protocol, username, password, search, hash } = new URL(url)
  if (!/^https?:$/.test(protocol)) return unsupported('its URL is not one of HTTP')
  // A target is a base URL: what is added would be the same for every caller, and is often a secret.
  if (`${username}${password}${search}${hash}` !== '')
    return unsupported('its URL has a query or credentials')
  const given = stringsIn(headers)
  if (given === undefined) return unsupported('its headers are not strings')
  // The gateway sets those of the connection itself.
  const own = Object.entries(given).filter(([name]) => !connectionFields.has(name.toLowerCase()))
  const [header, another] = own
  if (another !== undefined) return unsupported('it has two headers, and a broker sets one')
  if (header === undefined) return { kind: 'url', url, header: undefined }
  const [name, value] = header
  const broker = { type: 'static', key_refs: ['env:A'], inject: { header: name, format: 'raw' } }
  if (!brokersPlugin.schema.safeParse({ server: broker }).success) return unsupported(`the header ${name}`)
  return keepable(value)
    ? { kind: 'url', url, header: { name, value } }
    : unsupported('the form of its header')
}

function readCommand(
  command: string,
  { type, args = [], env }: Readonly<Record<string, unknown>>,
  { platform, directory }: EntryPlace,
): ServerEntry {
  if (platform === 'win32') return unsupported('svc cannot start commands on Windows')
  if (type !== undefined && type !== 'stdio') return unsupported('its type')
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string'))
    return unsupported('its arguments are not strings')
  const variables = stringsIn(env ?? {})
  if (variables === undefined) return unsupported('its variables are not strings')
  for (const [name, value] of Object.entries(variables)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return unsupported('the name of a variable')
    if (value !== '' && !keepable(value)) return unsupported(`the form of the variable ${name}`)
  }
  if (mayFetch(command, args) && readNpx(command, args) === undefined)
    return unsupported('npx is not given one package of a registry, which could be installed')
  const isOfClient = [command, ...args].some(hasClientVariable)
  const entry = { kind: 'command', command, args, env: variables, isOfClient } as const
  if (isOfClient) {
    const hasSecret = args.some((arg, at) => !hasClientVariable(arg) && isPrivateArgument(arg, args[at - 1]))
    return hasSecret ? unsupported('a secret in a command into which the client puts variables') : entry
  }
  if (!/[/\\]/.test(command) || isAbsolute(command)) return entry
  if (directory === undefined)
    return unsupported('its command is relative, and the file does not say to what')
  return { ...entry, command: resolve(directory, command) }
}

/** Undefined if a value is neither a string nor a number. */
function stringsIn(value: unknown): Record<string, string> | undefined {
  if (!isJsonObject(value)) return undefined
  const entries = Object.entries(value)
  if (!entries.every(([, one]) => typeof one === 'string' || typeof one === 'number')) return undefined
  return Object.fromEntries(entries.map(([name, one]) => [name, String(one)]))
}
