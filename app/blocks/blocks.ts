// The blocks in force in this gateway. The board shares them with all gateways; a change here is in force here at once, and is
// written to the board as soon as possible.
import { randomBytes, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { type Clock, type Identity, type Logger, Refusal, type Watch } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { elapsed, type HostInstant, thisBoot } from '@svc/core/store'
import { type Block, BlockList, blockedMessage, blockOfAll, blockSchema } from './block.js'
import type { Board, BoardState } from './board.js'
import type { BlockChange, BlocksFile } from './kept-blocks.js'
import { ENDED, epochOf, type Spread, spreadOf } from './spread.js'

/** Time between two reads of the board while it gives no notices, so that every gateway has a new block within a second. */
const LOOK_MS = 500
/**
 * The longest time between two signs of life of a gateway on the board; a new version is confirmed at once. The board is read
 * with each, as a notice may be lost.
 */
const SEEN_MS = 5_000
/** Time until a failed sign of life is repeated: LMDB prints lines of its own for each write to a full disk. */
const RETRY_MS = 10_000
/** The time of a block without an end, because the store and the file need an end for each. */
const ENDLESS_MS = 100 * 365 * 86_400_000
const LOG_MS = 10_000
export const MAX_BLOCKS = 200

export interface BlocksOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly file: BlocksFile
  /** The board of the deployment. */
  open(): Promise<Board>
  /** Whether calls run although the list was never read. */
  allowsUnknown(): boolean
  /** The list has changed: calls in progress are judged again. */
  changed(list: BlockList): void
  /** The store has told its time, for which it was asked at `asked`, in monotonic milliseconds. */
  timed?(time: number, asked: number): void
  /** Called by the one gateway that reports the end of a block. */
  ended(block: Block): void
}

interface Held {
  readonly block: Block
  /** Monotonic milliseconds. */
  readonly end: number
}

/** A change that is in force in this gateway already. */
export interface Changed {
  readonly block: Block
  /** Resolves when the other gateways apply it, or have had time to. */
  readonly spread: Promise<Spread>
}

export class Blocks {
  readonly #options: BlocksOptions
  readonly #id = randomUUID()
  readonly #name = `${hostname()} (${process.pid})`
  #held = new Map<string, Held>()
  #list = new BlockList([])
  #isKnown: boolean
  #version = ''
  /** Changes that the board does not have yet. */
  #pending = new Map<string, BlockChange>()
  /** Whether the board has changes of this gateway that are not in the list read last. */
  #isBehind = false
  /** Blocks that have ended and may still be on the board. */
  #ended = new Map<string, Block>()
  #board: Promise<Board> | undefined
  #watch: Watch | undefined
  /** A notice has come since the last read began. */
  #isStale = false
  #error: string | undefined
  #looking: Promise<void> | undefined
  #seen = { version: '', at: Number.NEGATIVE_INFINITY }
  #logAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  /** Starts with the blocks of the file. @throws {Error} if the file cannot be read */
  constructor(options: BlocksOptions) {
    this.#options = options
    const kept = options.file.read()
    this.#isKnown = kept !== undefined && kept.isKnown !== false
    if (kept !== undefined) {
      const passedMs = elapsed(kept.at, this.#instant)
      for (const { block, leftMs } of kept.blocks) this.#hold(block, leftMs - passedMs)
      this.#version = kept.version
      this.#pending = new Map(kept.pending)
    }
    this.#list = this.#listOf()
  }

  /** Reads the board now, and then after notices and at intervals. */
  async start(): Promise<void> {
    await this.look()
    this.#timer = setInterval(() => void this.lookIfDue(), LOOK_MS).unref()
  }

  /** False until the list was read for the first time, from the file or the store: then every call is refused. */
  get isKnown(): boolean {
    return this.#isKnown
  }

  /** The list in force for calls; undefined while every call is refused, as it was never read. */
  current(): BlockList | undefined {
    if (!this.#isKnown && !this.#options.allowsUnknown()) return undefined
    if (this.#held.size > 0) this.#removeEnded()
    return this.#list
  }

  /** Why it was not read. */
  reason(): string {
    return this.#error ?? ''
  }

  get list(): BlockList {
    if (this.#held.size > 0) this.#removeEnded()
    return this.#list
  }

  /** The message that refuses a blocked caller's request other than a call; undefined if the caller is not blocked. */
  refusalOf(caller: Identity): string | undefined {
    if (!this.#isKnown) return 'What operators have blocked is not known yet; ask again later.'
    const block = this.list.findCaller(caller)
    return block && blockedMessage(block)
  }

  /** Why the last exchange with the board failed. */
  get error(): string | undefined {
    return this.#error
  }

  /**
   * Without `forMs` the block has no end.
   *
   * @throws {Refusal} if there are too many
   * @throws {PatternError} for a pattern that does not compile; it is not kept
   */
  set(given: Pick<Block, 'kind' | 'pattern' | 'reason' | 'by'>, forMs?: number): Changed {
    if (this.list.blocks.length >= MAX_BLOCKS)
      throw new Refusal('BAD_REQUEST', `There are ${MAX_BLOCKS} blocks; lift one, or use a wider pattern.`)
    const now = this.#options.clock.now()
    const at = new Date(now).toISOString()
    const until = forMs === undefined ? null : new Date(now + forMs).toISOString()
    const block = { ...given, id: randomBytes(6).toString('hex'), at, until }
    // A pattern that does not compile could not be read by any gateway, and each would refuse every call.
    new BlockList([block])
    this.#hold(block, forMs ?? ENDLESS_MS)
    this.#pending.set(block.id, 'put')
    this.#apply()
    return { block, spread: this.#spread(block.id) }
  }

  /** Undefined if no block has the id. */
  lift(id: string): Changed | undefined {
    const held = this.#held.get(id)
    if (held === undefined) return undefined
    this.#held.delete(id)
    this.#pending.set(id, 'remove')
    this.#apply()
    return { block: held.block, spread: this.#spread(id) }
  }

  /** Exchanges changes with the board. Never rejects: while the board is down, the last list stays in force. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
      // The read may have been before the change.
      if (this.#isStale) void this.look()
    })
    return this.#looking
  }

  /** Spares a board that gives notices. */
  async lookIfDue(): Promise<void> {
    this.#removeEnded()
    const isIdle = this.#error === undefined && this.#pending.size === 0 && this.#ended.size === 0
    const isSeen = this.#options.clock.monotonic() - this.#seen.at < SEEN_MS
    if (this.#isStale || !isIdle || !isSeen || this.#watch?.isLive !== true) await this.look()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#watch?.close()
    this.#isStale = false
    await this.#looking
    try {
      const board = await this.#board
      await board?.seen({ id: this.#id, name: this.#name, version: ENDED })
      await board?.close()
    } catch (err) {
      // The other gateways then report this one as silent for a minute.
      this.#options.logger.debug({ err }, 'the end of this gateway is not on the board of blocks')
    }
  }

  async #look(): Promise<void> {
    this.#isStale = false
    this.#removeEnded()
    try {
      const board = await this.#opened()
      await this.#flush(board)
      const asked = this.#options.clock.monotonic()
      const state = await board.read(this.#version)
      if (state.time !== undefined) this.#options.timed?.(state.time, asked)
      this.#take(state)
      for (const [id, block] of this.#ended) {
        if ((await board.remove(id)) !== undefined) this.#options.ended(block)
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
    this.#board ??= this.#open().catch((error: unknown) => {
      this.#board = undefined
      throw error
    })
    return this.#board
  }

  async #open(): Promise<Board> {
    const board = await this.#options.open()
    this.#watch = board.watch(() => {
      this.#isStale = true
      void this.look()
    })
    return board
  }

  async #flush(board: Board): Promise<void> {
    if (this.#pending.size === 0) return
    try {
      for (const [id, change] of this.#pending) {
        const held = this.#held.get(id)
        if (change === 'remove') await board.remove(id)
        else if (held !== undefined)
          this.#sent(await board.put(id, JSON.stringify(held.block), this.#leftOf(held)))
        this.#isBehind = true
        // A change of the same block may have come meanwhile.
        if (this.#pending.get(id) === change) this.#pending.delete(id)
      }
    } finally {
      // A put that the file still has would bring a block back after a restart that another gateway has lifted meanwhile.
      this.#keep()
    }
  }

  /** A gateway that has not read the list yet knows from now on of which store it is, and so notices a loss. */
  #sent(version: string): void {
    if (this.#version === '') this.#version = `${epochOf(version)}0`
  }

  #take({ version, entries }: BoardState): void {
    this.#isBehind = false
    if (entries === undefined && this.#isKnown) return
    this.#isKnown = true
    const own = this.#held
    this.#held = new Map()
    for (const { id, value, leftMs } of entries ?? []) {
      const block = this.#read(id, value)
      if (this.#pending.get(id) === 'remove') continue
      if (block.until === null || leftMs > 0) this.#hold(block, leftMs)
      else this.#ended.set(id, block)
    }
    // If the store has lost its content, the blocks of this gateway stay in force.
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
      return new BlockList([block]).blocks[0] ?? blockOfAll(id)
    } catch (err) {
      this.#log(err)
      return blockOfAll(id)
    }
  }

  async #acknowledge(board: Board): Promise<void> {
    const now = this.#options.clock.monotonic()
    const version = this.#version
    if (this.#seen.version === version && now - this.#seen.at < SEEN_MS) return
    this.#seen = { version, at: now + RETRY_MS - SEEN_MS }
    await board.seen({ id: this.#id, name: this.#name, version })
    this.#seen = { version, at: now }
  }

  async #spread(id: string): Promise<Spread> {
    return spreadOf({
      name: this.#name,
      clock: this.#options.clock,
      // An exchange that began earlier may have missed the change.
      exchange: async () => {
        await this.look()
        if (this.#pending.has(id)) await this.look()
        // Changes of other blocks that came meanwhile have a spread of their own.
        if (this.#pending.has(id) || this.#isBehind || this.#board === undefined)
          throw new Error(this.#error ?? 'the store does not have the change yet')
        return { version: this.#version, board: await this.#board }
      },
    })
  }

  #hold(block: Block, forMs: number): void {
    // A wrong clock must not end a block without an end either.
    const left = block.until === null ? ENDLESS_MS : forMs
    if (left > 0) this.#held.set(block.id, { block, end: this.#options.clock.monotonic() + left })
  }

  get #instant(): HostInstant {
    const { clock } = this.#options
    return { wall: clock.now(), steady: clock.monotonic(), boot: thisBoot }
  }

  #leftOf({ end }: Held): number {
    return end - this.#options.clock.monotonic()
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
    this.#options.changed(this.#list)
    this.#keep()
  }

  #keep(): void {
    const blocks = [...this.#held.values()].map((held) => ({
      block: held.block,
      leftMs: this.#leftOf(held),
    }))
    try {
      this.#options.file.write({
        version: this.#version,
        at: this.#instant,
        blocks,
        ...(this.#isKnown ? {} : { isKnown: false }),
        ...(this.#pending.size === 0 ? {} : { pending: [...this.#pending] }),
      })
    } catch (err) {
      this.#options.logger.error(
        { err },
        'the blocks cannot be kept: after a restart they hold only if the store has them',
      )
    }
  }

  #log(err: unknown): void {
    const now = this.#options.clock.monotonic()
    if (now < this.#logAt) return
    this.#logAt = now + LOG_MS
    const effect = this.#isKnown
      ? 'the last list holds'
      : 'none was ever read, so calls are refused unless the policy allows them without the store'
    this.#options.logger.warn({ err }, `the blocks cannot be exchanged with other gateways: ${effect}`)
  }
}
