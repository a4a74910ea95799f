// Keeps the tokens of a user for one issuer and resource in a file that only the user can read, shared by processes.
import { randomBytes } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseJsonObject, sha256Hex } from '@svc/core/json'
import { makeDirectories } from '@svc/core/store'
import { tryLock } from '@svc/plugin-audit/log'
import { z } from 'zod'

const retryMs = 100

const tokensSchema = z.object({
  accessToken: z.string(),
  /** Milliseconds since the epoch; absent if the issuer does not say. */
  expiresAt: z.number().optional(),
  refreshToken: z.string().optional(),
  /** The client that the refresh token was issued to. */
  clientId: z.string(),
})

export type Tokens = Readonly<z.output<typeof tokensSchema>>

export class TokenFile {
  #directory: string
  #path: string

  /** `owner` identifies what the tokens are for. */
  constructor(directory: string, owner: readonly (string | undefined)[]) {
    this.#directory = directory
    this.#path = join(directory, `tokens-${sha256Hex(JSON.stringify(owner)).slice(0, 32)}.json`)
  }

  /** Undefined if there are none. */
  async read(): Promise<Tokens | undefined> {
    try {
      const parsed = tokensSchema.safeParse(parseJsonObject(await readFile(this.#path, 'utf8')))
      return parsed.success ? parsed.data : undefined
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
  }

  /** Replaces the file as a whole, readable by its owner alone. */
  async write(tokens: Tokens): Promise<void> {
    this.#makeDirectory()
    const draft = `${this.#path}.${randomBytes(6).toString('hex')}`
    const file = await open(draft, 'wx', 0o600)
    try {
      await file.writeFile(JSON.stringify(tokens))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, this.#path)
  }

  /** Runs `use` while no other process does so: a refresh token may be used once, and a user signs in once. */
  async exclusively<T>(use: () => Promise<T>): Promise<T> {
    this.#makeDirectory()
    const lock = await open(`${this.#path}.lock`, 'a', 0o600)
    try {
      while (!tryLock(lock.fd)) await delay(retryMs)
      return await use()
    } finally {
      // Closing the file frees the lock.
      await lock.close()
    }
  }

  #makeDirectory(): void {
    makeDirectories(this.#directory, 0o700)
    chmodSync(this.#directory, 0o700)
  }
}
