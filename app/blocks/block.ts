// A block: operators refuse callers, tools or servers that match a pattern, for a time or until they lift it.
import { type Call, type Identity, identity, type RequestKind } from '@svc/core'
import { compilePatternSet, foldName, type Glob, globMatches, globOf, type PatternSet } from '@svc/core/match'
import { z } from 'zod'

export const blockKinds = ['principal', 'tool', 'server'] as const
type BlockKind = (typeof blockKinds)[number]

/** The form in which gateways share a block. */
export const blockSchema = z.strictObject({
  id: z.string(),
  kind: z.enum(blockKinds),
  pattern: z.string(),
  reason: z.string(),
  /** The operator. */
  by: z.string(),
  /** ISO 8601, by the clock of the gateway that set the block. */
  at: z.string(),
  /** ISO 8601; null if it ends only when it is lifted. */
  until: z.string().nullable(),
})

export type Block = Readonly<z.output<typeof blockSchema>>

/** Decides which calls a list of blocks refuses. Names are compared folded, as in denylists. */
export class BlockList {
  readonly blocks: readonly Block[]
  readonly #principals: readonly (readonly [Block, Glob])[]
  readonly #tools: readonly (readonly [Block, PatternSet])[]
  readonly #servers: readonly (readonly [Block, PatternSet])[]

  /** @throws {PatternError} for a tool or server that is not a pattern */
  constructor(blocks: readonly Block[]) {
    const of = (kind: BlockKind) => blocks.filter((block) => block.kind === kind)
    this.blocks = blocks
    this.#principals = of('principal').map((block) => [block, globOf(foldName(block.pattern))])
    this.#tools = of('tool').map((block) => [block, compilePatternSet([block.pattern])])
    this.#servers = of('server').map((block) => [block, compilePatternSet([`${block.pattern}/*`])])
  }

  /** Whether a decision needs the request of a call, beside its caller and its server. */
  get needsRequest(): boolean {
    return this.#tools.length > 0
  }

  /** The first block that refuses the call. A block of a tool applies once the request has been read. */
  find(call: Call): Block | undefined {
    if (this.blocks.length === 0) return undefined
    const { kind, readings } = call.parsedRequest ?? {}
    return (
      this.findCaller(call.get(identity)) ??
      this.findServer(call.target.server) ??
      (kind === undefined || readings === undefined ? undefined : this.findReference(readings, kind))
    )
  }

  findCaller(caller: Identity | undefined): Block | undefined {
    if (this.#principals.length === 0) return undefined
    const names = namesOf(caller)
    return this.#principals.find(([, glob]) => names.some((name) => globMatches(glob, name)))?.[0]
  }

  findServer(server: string): Block | undefined {
    return this.#servers.find(([, set]) => set.coversServer(server))?.[0]
  }

  /** The block of one of these readings of a reference. Other requests of a protocol name no tool. */
  findReference(readings: readonly string[], kind: RequestKind): Block | undefined {
    if (kind === 'protocol') return undefined
    return this.#tools.find(([, set]) => set.findReading(readings) !== undefined)?.[0]
  }
}

/** The message for the blocked caller, without the operator's reason. */
export function blockedMessage({ until, id }: Block): string {
  return `Blocked by an operator until ${until ?? 'it is allowed again'} (${id}).`
}

/** A user is known by several names, and its client by its own. */
function namesOf(caller: Identity | undefined): string[] {
  if (caller === undefined) return []
  const { user, userId, subject, clientId, client } = caller
  const names = [user, userId, subject, clientId, client]
  return names.filter((name) => name !== undefined).map(foldName)
}

/** Replaces an entry that cannot be read: it may block anything, so each call is refused until an operator lifts it. */
export function blockOfAll(id: string): Block {
  const reason = 'the entry of the store cannot be read, so every call is refused'
  return {
    id,
    kind: 'server',
    pattern: '*',
    reason,
    by: 'the gateway',
    at: new Date(0).toISOString(),
    until: null,
  }
}
