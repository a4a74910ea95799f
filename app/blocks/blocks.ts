// The blocks in force in this gateway. The board has them for all gateways; what is set here holds here at once, and goes
// to the board when it can.
import { randomBytes, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { type Board, type BoardState, type Clock, type Identity, type Logger, Refusal } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { elapsed, type HostInstant, thisBoot } from '@svc/core/store'
import { type Block, BlockList, blockSchema, describeEnd } from './block.js'
import type { BlockChange, BlocksFile } from './kept-blocks.js'
import { ENDED, epochOf, type Spread, spreadOf } from './spread.js'

/** Time between two looks at the board: every gateway has a new block within a second. */
export const LOOK_MS = 250
/** A gateway says that it lives at least this often. */
const SEEN_MS = 1_000
/** Until it says so again where that failed: LMDB prints lines of its own for each write to a full disk. */
const RETRY_MS = 10_000
/** Ended blocks stay on the board until a gateway has recorded their end. */
const GRACE_MS = 86_400_000
/** For one without an end; the store and the file have an end for each. */
const ENDLESS_MS = 100 * 365 * 86_400_000
const LOG_MS = 10_000
export const MAX_BLOCKS = 200

export interface BlocksParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly file: BlocksFile
  /** The board of the deployment. */
  open(): Promise<Board>
  /** The list has changed: calls in progress are judged again. */
  changed(list: BlockList): void
  /** A block has ended, and this gateway is the one that says so. */
  ended(block: Block): void
}

interface Held {
  readonly block: Block
  /** Monotonic milliseconds. */
  readonly end: number
}

/** A change that holds in this gateway already. */
export interface Changed {
  readonly block: Block
  /** Resolves when the others have it, or have had time for it. */
  readonly spread: Promise<Spread>
}

export class Blocks {
  readonly #parts: BlocksParts
  readonly #id = randomUUID()
  readonly #name = `${hostname()} (${process.pid})`
  #held = new Map<string, Held>()
  #list = new BlockList([])
  #isKnown: boolean
  #version = ''
  /** Changes that the board does not have yet. */
  #pending = new Map<string, BlockChange>()
  /** Blocks that have ended and may still be on the board. */
  #ended = new Map<string, Block>()
  #board: Promise<Board> | undefined
  #error: string | undefined
  #looking: Promise<void> | undefined
  #seen = { version: '', at: Number.NEGATIVE_INFINITY }
  #logAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  /** Holds what the file has. @throws {Error} if the file cannot be read */
  constructor(parts: BlocksParts) {
    this.#parts = parts
    const kept = parts.file.read()
    this.#isKnown = kept !== undefined && kept.isKnown !== false
    if (kept !== undefined) {
      const passedMs = elapsed(kept.at, this.#instant)
      for (const { block, leftMs } of kept.blocks) this.#hold(block, leftMs - passedMs)
      this.#version = kept.version
      this.#pending = new Map(kept.pending)
    }
    this.#list = this.#listOf()
  }

  /** Looks at the board now, and from now on. */
  async start(): Promise<void> {
    await this.look()
    this.#timer = setInterval(() => void this.look(), LOOK_MS).unref()
  }

  /** False until the list was read for the first time, from the file or the store: then every call is refused. */
  get isKnown(): boolean {
    return this.#isKnown
  }

  get list(): BlockList {
    this.#removeEnded()
    return this.#list
  }

  /** What a person is told whom a block refuses, for what is not a call; undefined for others. */
  refusalOf(caller: Identity): string | undefined {
    if (!this.#isKnown) return 'What operators have blocked is not known yet; ask again later.'
    const block = this.list.findCaller(caller)
    return block && describeEnd(block)
  }

  /** Why the last exchange with the board failed. */
  get error(): string | undefined {
    return this.#error
  }

  /**
   * Without `forMs` it has no end.
   *
   * @throws {Refusal} if there are too many
   * @throws {PatternError} for a pattern that does not compile; nothing is kept of it
   */
  set(given: Pick<Block, 'kind' | 'pattern' | 'reason' | 'by'>, forMs?: number): Changed {
    if (this.list.blocks.length >= MAX_BLOCKS)
      throw new Refusal('BAD_REQUEST', `There are ${MAX_BLOCKS} blocks; lift one, or use a wider pattern.`)
    const now = this.#parts.clock.now()
    const at = new Date(now).toISOString()
    const until = forMs === undefined ? null : new Date(now + forMs).toISOString()
    const block = { ...given, id: randomBytes(6).toString('hex'), at, until }
    // One that does not compile would be unreadable everywhere, and every call would be refused.
    new BlockList([block])
    this.#hold(block, forMs ?? ENDLESS_MS)
    this.#pending.set(block.id, 'put')
    this.#apply()
    return { block, spread: this.#spread(block.id) }
  }

  /** Undefined if there is no such block. */
  lift(id: string): Changed | undefined {
    const held = this.#held.get(id)
    if (held === undefined) return undefined
    this.#held.delete(id)
    this.#pending.set(id, 'remove')
    this.#apply()
    return { block: held.block, spread: this.#spread(id) }
  }

  /** Exchanges changes with the board. Never rejects: while the board is down, the last list holds. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
    try {
      const board = await this.#board
      await board?.seen({ id: this.#id, name: this.#name, version: ENDED })
      await board?.close()
    } catch (err) {
      // The others then mention this gateway as silent for a minute.
      this.#parts.logger.debug({ err }, 'the end of this gateway is not on the board of blocks')
    }
  }

  async #look(): Promise<void> {
    this.#removeEnded()
    try {
      const board = await this.#opened()
      await this.#flush(board)
      this.#take(await board.read(this.#version))
      for (const [id, block] of this.#ended) {
        if ((await board.remove(id)) !== undefined) this.#parts.ended(block)
        this.#ended.delete(id)
      }
      await this.#acknowledge(board)
      this.#error = undefined
    } catch (err) {
      this.#error = messageOf(err)
      this.#log(err)
    }
  }

  #opened(): Promise<Board> {
    this.#board ??= this.#parts.open().catch((error: unknown) => {
      this.#board = undefined
      throw error
    })
    return this.#board
  }

  async #flush(board: Board): Promise<void> {
    for (const [id, change] of this.#pending) {
      const held = this.#held.get(id)
      if (change === 'remove') await board.remove(id)
      else if (held !== undefined)
        await board.put(id, JSON.stringify(held.block), this.#leftOf(held) + GRACE_MS)
      // A change of the same block may have come meanwhile.
      if (this.#pending.get(id) === change) this.#pending.delete(id)
    }
  }

  #take({ version, entries }: BoardState): void {
    if (entries === undefined && this.#isKnown) return
    this.#isKnown = true
    const own = this.#held
    this.#held = new Map()
    for (const { id, value, leftMs } of entries ?? []) {
      const block = this.#read(id, value)
      if (this.#pending.get(id) === 'remove') continue
      if (block.until === null || leftMs > GRACE_MS) this.#hold(block, leftMs - GRACE_MS)
      else this.#ended.set(id, block)
    }
    // A store that has lost its content must not lift what it had.
    const isLost = this.#version !== '' && epochOf(version) !== epochOf(this.#version)
    for (const [id, held] of own) {
      if (this.#held.has(id) || !(isLost || this.#pending.get(id) === 'put')) continue
      this.#held.set(id, held)
      this.#pending.set(id, 'put')
    }
    this.#version = version
    this.#apply()
  }

  #read(id: string, value: string): Block {
    try {
      const block = blockSchema.parse(JSON.parse(value))
      // Throws for an invalid pattern.
      return new BlockList([block]).blocks[0] ?? unreadable(id)
    } catch (err) {
      this.#log(err)
      return unreadable(id)
    }
  }

  async #acknowledge(board: Board): Promise<void> {
    const now = this.#parts.clock.monotonic()
    const version = this.#version
    if (this.#seen.version === version && now - this.#seen.at < SEEN_MS) return
    this.#seen = { version, at: now + RETRY_MS - SEEN_MS }
    await board.seen({ id: this.#id, name: this.#name, version })
    this.#seen = { version, at: now }
  }

  async #spread(id: string): Promise<Spread> {
    return spreadOf({
      name: this.#name,
      clock: this.#parts.clock,
      // An exchange that has begun may have passed over the change.
      exchange: async () => {
        await this.look()
        if (this.#pending.has(id)) await this.look()
        // Changes of other blocks that came meanwhile have a spread of their own.
        if (this.#pending.has(id) || this.#board === undefined)
          throw new Error(this.#error ?? 'the store does not have the change yet')
        return { version: this.#version, board: await this.#board }
      },
    })
  }

  #hold(block: Block, forMs: number): void {
    // One without an end does not end by a wrong clock either.
    const left = block.until === null ? ENDLESS_MS : forMs
    if (left > 0) this.#held.set(block.id, { block, end: this.#parts.clock.monotonic() + left })
  }

  get #instant(): HostInstant {
    const { clock } = this.#parts
    return { wall: clock.now(), steady: clock.monotonic(), boot: thisBoot }
  }

  #leftOf({ end }: Held): number {
    return end - this.#parts.clock.monotonic()
  }

  #removeEnded(): void {
    let isChanged = false
    for (const [id, held] of this.#held) {
      if (this.#leftOf(held) > 0) continue
      this.#held.delete(id)
      this.#ended.set(id, held.block)
      isChanged = true
    }
    if (isChanged) this.#apply()
  }

  #listOf(): BlockList {
    return new BlockList([...this.#held.values()].map(({ block }) => block))
  }

  #apply(): void {
    this.#list = this.#listOf()
    this.#parts.changed(this.#list)
    const blocks = [...this.#held.values()].map((held) => ({
      block: held.block,
      leftMs: this.#leftOf(held),
    }))
    try {
      this.#parts.file.write({
        version: this.#version,
        at: this.#instant,
        blocks,
        ...(this.#isKnown ? {} : { isKnown: false }),
        ...(this.#pending.size === 0 ? {} : { pending: [...this.#pending] }),
      })
    } catch (err) {
      this.#parts.logger.error(
        { err },
        'the blocks cannot be kept: after a restart they hold only if the store has them',
      )
    }
  }

  #log(err: unknown): void {
    const now = this.#parts.clock.monotonic()
    if (now < this.#logAt) return
    this.#logAt = now + LOG_MS
    this.#parts.logger.warn(
      { err },
      'the blocks cannot be exchanged with other gateways: the last list holds',
    )
  }
}

/** What it refuses is not known, so it refuses every call. Operators see it in the list, and lift it. */
function unreadable(id: string): Block {
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
