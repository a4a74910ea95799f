// The scopes that a call requires (RFC 6749 §3.3).
import type { Call } from '@svc/core'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import type { ScopesConfig } from './config.js'

export class RequiredScopes {
  #required: readonly string[]
  #servers: ReadonlyMap<string, readonly string[]>
  #tools: PatternMap<readonly string[]> | undefined
  #known: ReadonlySet<string>

  constructor({ required, servers, tools }: ScopesConfig) {
    this.#required = required
    this.#servers = new Map(
      Object.entries(servers).map(([server, scopes]) => [server.normalize('NFC'), [...required, ...scopes]]),
    )
    this.#tools = Object.keys(tools).length === 0 ? undefined : compilePatternMap(tools)
    this.#known = new Set([...required, ...Object.values(servers).flat(), ...Object.values(tools).flat()])
  }

  /** The scopes that calls of these servers require; without a server, every call of the gateway. */
  forServers(servers: readonly string[]): readonly string[] {
    return [...new Set([...this.#required, ...servers.flatMap((server) => this.#servers.get(server) ?? [])])]
  }

  /** The scopes that this call requires. Reads the request where patterns are configured; rejects with its `Refusal`. */
  async forCall(call: Call, server: string): Promise<readonly string[]> {
    const base = this.#servers.get(server) ?? this.#required
    if (this.#tools === undefined) return base
    const { kind, readings } = await call.request()
    if (kind === 'protocol') return base
    const found = this.#tools.lookup(readings).flat()
    return found.length === 0 ? base : [...new Set([...base, ...found.flatMap(({ value }) => value)])]
  }

  /**
   * The scopes for a challenge: the required ones, and those that the token has and the policy knows. A client that
   * requests the required ones alone would lose the others (MCP authorization, "Step-Up Authorization Flow").
   */
  toRequest(required: readonly string[], held: ReadonlySet<string>): string[] {
    return [...new Set([...required, ...[...held].filter((scope) => this.#known.has(scope))])]
  }
}
