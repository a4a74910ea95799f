// Which scopes a call needs its token to have (RFC 6749 §3.3). What is not configured is not asked for.
import type { Call } from '@svc/core'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import type { ScopesConfig } from './config.js'

export class RequiredScopes {
  #every: readonly string[]
  #servers: ReadonlyMap<string, readonly string[]>
  #tools: PatternMap<readonly string[]> | undefined
  #known: ReadonlySet<string>

  constructor({ required, servers, tools }: ScopesConfig) {
    this.#every = required
    this.#servers = new Map(
      Object.entries(servers).map(([server, scopes]) => [server.normalize('NFC'), [...required, ...scopes]]),
    )
    this.#tools = Object.keys(tools).length === 0 ? undefined : compilePatternMap(tools)
    this.#known = new Set([...required, ...Object.values(servers).flat(), ...Object.values(tools).flat()])
  }

  /** What every use of the server takes, or of the gateway where none is named. */
  ofServer(server: string | undefined): readonly string[] {
    return (server === undefined ? undefined : this.#servers.get(server)) ?? this.#every
  }

  /** What this call takes. Reads the request where patterns have a say; rejects with its `Refusal`. */
  async ofCall(call: Call, server: string): Promise<readonly string[]> {
    const base = this.ofServer(server)
    if (this.#tools === undefined) return base
    const { kind, reference } = await call.request()
    if (kind === 'protocol') return base
    const found = this.#tools.lookup(reference)
    return found.length === 0 ? base : [...new Set([...base, ...found.flatMap(({ value }) => value)])]
  }

  /**
   * What to ask the issuer for: the missing ones, and those that the token has and this gateway knows. A client that
   * asks for the missing ones alone would lose the others (MCP authorization, "Step-Up Authorization Flow").
   */
  toAskFor(needed: readonly string[], held: ReadonlySet<string>): string[] {
    return [...new Set([...needed, ...[...held].filter((scope) => this.#known.has(scope))])]
  }
}
