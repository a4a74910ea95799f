// The callers and tools on which two policies are compared: those that the policies name, a synthetic one for each pattern,
// and those that logs and lists have.
import { type Identity, type NamedCaller, resolveOptional, services, Unrecorded } from '@svc/core'
import { compilePatternSet, nameOutside } from '@svc/core/match'
import { patternsOf } from '@svc/core/policy'
import { UNVERSIONED } from '../../mcp/server-versions.js'
import type { Policy } from '../../policy/config.js'
import { addressesOf } from '../../stdio/targets/config.js'
import { targetOf } from '../../upstream/target.js'
import { callerIdentity } from '../explain/effective-access.js'
import { NamedAgent, type NamedRequest, type NamingCaller, requestNames } from '../judge/recorded-call.js'
import { EveryScope } from '../judge/tool-listing.js'

/** A tool of a server that a log, a lock file or a list has. */
export interface KnownTool {
  readonly server: string
  readonly name: string
  /** Undefined: the versions that the policies name, or none. */
  readonly version?: string | undefined
}

/** The tools of the policy's lock file. Throws if it cannot be read. */
export function lockedTools({ container }: Policy, baseDir: string): readonly KnownTool[] {
  return resolveOptional(container, services.lockedTools)?.(baseDir) ?? []
}

export interface KnownCaller extends NamingCaller {
  readonly tenant: string
  /** Names the caller for people, such as `role support`. */
  readonly subject: string
}

/** A caller of whom the policy has one name; no scope is missing to it, and which it has is not known. */
function namedCaller(named: NamedCaller): KnownCaller {
  const { tenant, kind, name } = named
  const identity: Identity = Object.defineProperty(callerIdentity(named), 'scopes', {
    get: () => {
      throw new Unrecorded(['the scopes of the token'])
    },
  })
  return {
    tenant,
    subject: kind === 'anyone' ? EVERY_CALLER : `${kind.replace('_', ' ')} ${name}`,
    trusted: { identity, scopes: new EveryScope() },
    agent: new NamedAgent(identity.nodeId ?? null),
  }
}

/**
 * Returns the callers that the policies name, one of each tenant without an entry of its own, one of another tenant, and one
 * without a token. A pattern of names gives a caller whose name is the text of the pattern, which the pattern matches.
 */
export function knownCallers(policies: readonly Policy[]): KnownCaller[] {
  const own = policies.map(({ host }) => host.tenant)
  const tenants = policies.flatMap(({ container }) => resolveOptional(container, services.namedTenants) ?? [])
  const other = nameOutside([...own, ...tenants])
  const anyone = (tenant: string) => namedCaller({ tenant, kind: 'anyone', name: '' })
  const callers = [
    ...own.map((tenant) => ({
      tenant,
      subject: 'a caller without a token',
      trusted: undefined,
      agent: new NamedAgent(null),
    })),
    ...[...own, ...tenants].map(anyone),
    ...(other === undefined ? [] : [{ ...anyone(other), tenant: 'any other tenant' }]),
    ...policies
      .flatMap(({ container }) => resolveOptional(container, services.namedCallers) ?? [])
      .map(namedCaller),
  ]
  return [...new Map(callers.map((caller) => [`${caller.tenant}\n${caller.subject}`, caller])).values()]
}

/** A caller of a tenant who has no role and no entry of its own. */
export const EVERY_CALLER = 'every caller'

/** The requests of calls, by the tools that are known and the patterns of policies. */
export class KnownRequests {
  readonly all: readonly NamedRequest[]
  readonly #policies: readonly Policy[]
  readonly #servers: readonly string[]
  /** What a star of a pattern stands for: a word that no pattern and no tool has. */
  readonly #any: string
  readonly #versions: ReadonlyMap<string, readonly string[]>
  readonly #ofPattern = new Map<string, readonly NamedRequest[]>()

  constructor(policies: readonly Policy[], tools: readonly KnownTool[]) {
    this.#policies = policies
    this.#servers = [...new Set(policies.flatMap(({ host }) => Object.keys(host.targets)))]
    const patterns = new Set(policies.flatMap((policy) => patternsOf(policy).map(({ pattern }) => pattern)))
    const names = [...patterns, ...tools.map(({ name }) => name)].join('\n').toLowerCase()
    this.#any =
      ['any', 'some', 'other'].find((word) => !names.includes(word)) ?? nameOutside([names]) ?? 'any'
    this.#versions = new Map(this.#servers.map((server) => [server, this.#versionsOf(server)]))
    const known = unique(tools.flatMap((tool) => this.#inVersions({ kind: 'tool', ...tool })))
    for (const pattern of ['*', ...patterns]) this.#ofPattern.set(pattern, this.#requestsOf(pattern, known))
    this.all = unique([...known, ...[...this.#ofPattern.values()].flat()])
  }

  /** Those that stand for the pattern: one of each server that it may name. */
  of(pattern: string): readonly NamedRequest[] {
    return this.#ofPattern.get(pattern) ?? []
  }

  /** A pattern without a star in its name stands for the known tool that it names. */
  #requestsOf(pattern: string, known: readonly NamedRequest[]): NamedRequest[] {
    const { server, kind, name, version } = partsOf(pattern)
    if (!name.includes('*')) {
      const set = compilePatternSet([pattern])
      const named = known.filter(({ reference }) => set.matches(reference))
      if (named.length > 0) return named
    }
    const isMeant = new RegExp(`^${server.split('*').map(escaped).join('.*')}$`, 'iu')
    const servers = this.#servers.filter((one) => isMeant.test(one))
    return servers.flatMap((one) => {
      for (const any of kind === 'resource' ? this.#uris : [this.#any]) {
        const subject = {
          kind,
          server: one,
          name: filled(name, any),
          version: version === undefined ? undefined : filled(version, this.#any),
        }
        const found = this.#inVersions(subject)
        if (found.length > 0) return found
      }
      return []
    })
  }

  /** What the star of a pattern of resources may stand for, as not every text is a URI. */
  get #uris(): string[] {
    return [this.#any, `${this.#any}:${this.#any}`, `${this.#any}://${this.#any}/${this.#any}`]
  }

  #inVersions({ kind, server, name, version }: KnownTool & Pick<NamedRequest, 'kind'>): NamedRequest[] {
    const versions = version === undefined ? (this.#versions.get(server) ?? [UNVERSIONED]) : [version]
    const addresses = this.#policies.flatMap(({ host }) => addressesOf(host.targets)[server] ?? [])
    const isInPath = kind === 'tool' && addresses.some((address) => !targetOf(address).isMcp)
    const method = isInPath ? null : methods[kind]
    return versions.flatMap(
      (one) => requestNames({ kind, server, name, version: one, method }, isInPath) ?? [],
    )
  }

  #versionsOf(server: string): readonly string[] {
    const patterns = this.#policies.flatMap(
      ({ container }) => resolveOptional(container, services.namedVersions)?.[server] ?? [],
    )
    if (patterns.length === 0) return [UNVERSIONED]
    // The last one is of no pattern.
    return [...new Set([...patterns.map((pattern) => filled(pattern, this.#any)), this.#any])]
  }
}

const methods = {
  tool: 'tools/call',
  prompt: 'prompts/get',
  resource: 'resources/read',
  protocol: null,
} as const

interface PatternReference {
  readonly server: string
  readonly kind: 'tool' | 'prompt' | 'resource'
  readonly name: string
  readonly version: string | undefined
}

/** A pattern without a slash is of the tools of every server. */
function partsOf(pattern: string): PatternReference {
  const text = pattern.replace(/^mcp:\/\//, '')
  const slash = text.indexOf('/')
  const [server, rest] = slash < 0 ? ['*', text] : [text.slice(0, slash), text.slice(slash + 1)]
  const [, kind, path = ''] = /^(?:(prompt|resource)s\/)?(.*)$/s.exec(rest) ?? []
  const at = path.lastIndexOf('@')
  const [name, version] = at > 0 ? [path.slice(0, at), path.slice(at + 1)] : [path, undefined]
  return { server, kind: (kind ?? 'tool') as PatternReference['kind'], name, version }
}

/** Names are percent-encoded in patterns; %2A is a star that stands for itself. */
function filled(pattern: string, any: string): string {
  return pattern.split('*').map(decodeURIComponent).join(any)
}

function escaped(text: string): string {
  return decodeURIComponent(text).replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

function unique(requests: readonly NamedRequest[]): NamedRequest[] {
  return [...new Map(requests.map((one) => [one.reference, one])).values()]
}
