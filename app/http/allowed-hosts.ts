// The Host names that the gateway responds to. After DNS rebinding, a browser sends the attacker's name to the
// gateway's address, so unknown names are refused; an IP address in Host cannot be rebound.

import { isIP } from 'node:net'
import { isLoopbackHost } from '@svc/core/http'
import { isUrl } from '@svc/core/json'
import { z } from 'zod'

const nameForm = /^(?:\*|(?:\*\.)?[0-9a-z_-]+(?:\.[0-9a-z_-]+)*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

export const allowedHostsSchema = z
  .array(
    z
      .string()
      .refine(
        (name) => nameForm.test(name),
        'expected a name, *.<name>, an address or *, and perhaps a port',
      ),
  )
  .default([])
  .describe(
    'Names under which clients reach the gateway, beside its addresses and the host of publicUrl; *.example.com means its subdomains, * any name. Without a port every port is meant.',
  )

interface AllowedHostsConfig {
  /** Address that is listened on. */
  readonly host: string
  /** Names in the form of `allowedHostsSchema`. */
  readonly allowedHosts: readonly string[]
  readonly publicUrl?: string | undefined
}

export class AllowedHosts {
  #isLocal: boolean
  #isAny: boolean
  #exact: ReadonlySet<string>
  #suffixes: readonly string[]
  #lastKnown: string | undefined

  constructor({ host, allowedHosts, publicUrl }: AllowedHostsConfig) {
    const own = publicUrl === undefined ? [] : [new URL(publicUrl).hostname]
    const listed = [...own, ...allowedHosts].map((name) => name.toLowerCase())
    this.#isLocal = isLocalAddress(host)
    this.#isAny = listed.includes('*')
    this.#exact = new Set(listed.filter((name) => !name.startsWith('*')))
    this.#suffixes = listed.filter((name) => name.startsWith('*.')).map((name) => name.slice(1))
  }

  /** Whether a request with this Host header is meant for this gateway. */
  has(header: string): boolean {
    if (header === this.#lastKnown) return true
    // A name with a final dot is the same name in DNS, as its absolute form.
    const host = header.replace(/\.(?=(?::\d+)?$)/, '')
    if (!this.#isAny && !this.#isListed(host.toLowerCase()) && !this.#isOwnAddress(host)) return false
    this.#lastKnown = header
    return true
  }

  #isListed(header: string): boolean {
    const name = header.replace(/:\d+$/, '')
    if (this.#exact.has(header) || this.#exact.has(name)) return true
    return this.#suffixes.some((suffix) => (suffix.includes(':') ? header : name).endsWith(suffix))
  }

  /** On loopback only this machine's names count; on other addresses its names are not known beforehand. */
  #isOwnAddress(header: string): boolean {
    const url = `http://${header}`
    if (!isUrl(url)) return false
    const { hostname } = new URL(url)
    return isLoopbackHost(hostname) || (!this.#isLocal && isIP(hostname.replace(/^\[(.*)\]$/, '$1')) !== 0)
  }
}

/** `host` without brackets, as the listener takes it. */
export function isLocalAddress(host: string): boolean {
  const url = `http://${host.includes(':') ? `[${host}]` : host}`
  return isUrl(url) && isLoopbackHost(new URL(url).hostname)
}
