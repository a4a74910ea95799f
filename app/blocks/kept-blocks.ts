// The last list of blocks in a file of the gateway: after a restart it is in force while the store is down, or without a store.
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { messageOf } from '@svc/core/json'
import type { HostInstant } from '@svc/core/store'
import { z } from 'zod'
import { type Block, blockSchema } from './block.js'

const changeSchema = z.enum(['put', 'remove'])

/** The next change of a block on the board. */
export type BlockChange = z.output<typeof changeSchema>

// Optional parts are left out if they have their default, so that earlier releases read the file.
const fileSchema = z.strictObject({
  /** The version of the board. */
  version: z.string(),
  /** The time of the write: a wall clock that is set meanwhile must not end a block. */
  at: z.strictObject({ wall: z.number(), steady: z.number(), boot: z.number() }),
  /** `leftMs`: milliseconds from then to its end. */
  blocks: z.array(z.strictObject({ block: blockSchema, leftMs: z.number() })),
  /** False if the gateway had not read the list of the board, so there may be more blocks. */
  isKnown: z.boolean().optional(),
  /** Changes that the board does not have yet, by the id of their block. */
  pending: z.array(z.tuple([z.string(), changeSchema])).optional(),
})

interface KeptBlocks {
  readonly version: string
  readonly at: HostInstant
  readonly blocks: readonly { readonly block: Block; readonly leftMs: number }[]
  readonly isKnown?: boolean | undefined
  readonly pending?: readonly (readonly [string, BlockChange])[] | undefined
}

export class BlocksFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** Undefined if the file does not exist. @throws {Error} for a file that cannot be read, because its blocks are not known */
  read(): KeptBlocks | undefined {
    let text: string
    try {
      text = readFileSync(this.#path, 'utf8')
    } catch (error) {
      // A path through a file has no blocks file either; the next write reports the error.
      if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR'))
        return undefined
      throw this.#readError(error)
    }
    try {
      return fileSchema.parse(JSON.parse(text))
    } catch (error) {
      throw this.#readError(error)
    }
  }

  /** Replaces the file by a rename. Throws system errors. */
  write(kept: KeptBlocks): void {
    const draft = `${this.#path}.${randomBytes(6).toString('hex')}`
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 })
    try {
      writeFileSync(draft, JSON.stringify(kept), { mode: 0o600, flush: true })
      renameSync(draft, this.#path)
    } catch (error) {
      rmSync(draft, { force: true })
      throw error
    }
  }

  #readError(cause: unknown): Error {
    const message = `${this.#path}: ${messageOf(cause)}; remove it if nothing is blocked`
    return new Error(message, { cause })
  }
}
