// Cookies that MCP servers set for the gateway, their client: balancers pin a session to one of several replicas by them
// (RFC 6265). They are kept for one principal with one credential at one origin, and go to nobody else.
import { type Clock, credential } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { callerKey } from '../upstream/send.js'
import type { McpRequest } from './servers.js'

/** Characters of the cookies for one principal at one origin; further ones are not kept. */
const maxJar = 4096
/** Characters of all cookies; beyond it, the jar that was changed longest ago is dropped. */
const maxJars = 4_194_304
/** What an entry without cookies takes of it. */
const entrySize = 100

interface Cookie {
  readonly value: string
  readonly path: string
  readonly isSecure: boolean
  /** Milliseconds since the epoch; infinite for the session of the gateway. */
  readonly expiresAt: number
}

type Jar = ReadonlyMap<string, Cookie>

export class ServerCookies {
  #clock: Pick<Clock, 'now'>
  #jars = new BoundedMap<string, Jar>(maxJars, (jar) => entrySize + sizeOf(jar))
  /** Origins that have set cookies: most set none, and need no key. */
  #origins = new Set<string>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** The value of `Cookie` for the request; undefined if there is none. */
  of(target: URL, request: McpRequest): string | undefined {
    if (!this.#origins.has(target.origin)) return undefined
    const jar = this.#jars.get(keyOf(target, request))
    const now = this.#clock.now()
    const sent = [...(jar ?? [])].filter(
      ([, { path, isSecure, expiresAt }]) =>
        expiresAt > now && isBelow(target.pathname, path) && (!isSecure || target.protocol === 'https:'),
    )
    return sent.length === 0 ? undefined : sent.map(([name, { value }]) => `${name}=${value}`).join('; ')
  }

  /** Keeps what a response to the request sets. */
  keep(target: URL, request: McpRequest, given: string | readonly string[]): void {
    const key = keyOf(target, request)
    const jar = new Map(this.#jars.get(key))
    for (const text of typeof given === 'string' ? [given] : given) {
      const cookie = readCookie(text, target, this.#clock.now())
      if (cookie === undefined) continue
      jar.delete(cookie.name)
      if (cookie.expiresAt > this.#clock.now()) jar.set(cookie.name, cookie)
      if (sizeOf(jar) > maxJar) jar.delete(cookie.name)
    }
    this.#jars.set(key, jar)
    this.#origins.add(target.origin)
  }
}

function sizeOf(jar: Jar): number {
  let size = 0
  for (const [name, { value, path }] of jar) size += name.length + value.length + path.length
  return size
}

/** A hash, as the credential is part of it. */
function keyOf({ origin }: URL, { call, onBehalfOf, headers }: McpRequest): string {
  const known = call ?? onBehalfOf
  const used = known?.get(credential)?.header ?? 'authorization'
  return sha256Hex(
    JSON.stringify([origin, known === undefined ? '' : callerKey(known), headers[used] ?? null]),
  )
}

/** RFC 6265 §5.2; a cookie for a domain is kept for the host alone. */
function readCookie(text: string, { pathname }: URL, now: number): (Cookie & { name: string }) | undefined {
  const [pair = '', ...attributes] = text.split(';').map((part) => part.trim())
  const [, name = '', value = ''] =
    /^([^=\s"(),/:;<>?@[\]{}]+)=([\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e"]*)$/.exec(pair) ?? []
  if (name === '') return undefined
  const said = new Map(
    attributes.map((attribute): [string, string] => {
      const [key = '', ...rest] = attribute.split('=')
      return [key.toLowerCase(), rest.join('=')]
    }),
  )
  const path = said.get('path')
  const parent = pathname.slice(0, pathname.lastIndexOf('/')) || '/'
  return {
    name,
    value,
    path: path?.startsWith('/') === true ? path : parent,
    isSecure: said.has('secure'),
    expiresAt: expiryOf(said, now),
  }
}

function expiryOf(said: ReadonlyMap<string, string>, now: number): number {
  const maxAge = said.get('max-age')
  if (maxAge !== undefined && /^-?\d{1,12}$/.test(maxAge)) return now + Number(maxAge) * 1000
  const date = Date.parse(said.get('expires') ?? '')
  return Number.isNaN(date) ? Number.POSITIVE_INFINITY : date
}

/** RFC 6265 §5.1.4. */
function isBelow(pathname: string, path: string): boolean {
  return pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`)
}
