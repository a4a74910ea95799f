// Keeps notices in a directory until they are delivered, one file each, so that a restart loses none. Processes that
// share the directory may deliver one twice, with the same id.
import { open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectories } from '@svc/core/directories'
import { parseJsonObject } from '@svc/core/json'
import { z } from 'zod'

const queuedSchema = z.strictObject({
  id: z.string().regex(/^msg_[0-9a-f]+$/),
  url: z.url(),
  /** Whether a policy subscribes the URL; else the sender named it. */
  subscribed: z.boolean(),
  /** Milliseconds since the epoch. */
  at: z.number(),
  body: z.string(),
})

export type QueuedNotice = z.output<typeof queuedSchema>

export class NoticeQueue {
  #directory: string

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Resolves when the notice survives a crash of the machine. */
  async add(notice: QueuedNotice): Promise<void> {
    makeDirectories(this.#directory, 0o700)
    const path = this.#pathOf(notice.id)
    const temporary = `${path}.tmp`
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(JSON.stringify(notice))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  }

  async remove(id: string): Promise<void> {
    await rm(this.#pathOf(id), { force: true })
  }

  /** The notices that an earlier process left, oldest first. Other files are left alone. */
  async load(): Promise<QueuedNotice[]> {
    const names = await readdir(this.#directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    const notices: QueuedNotice[] = []
    for (const name of names.filter((each) => each.endsWith('.json'))) {
      const notice = queuedSchema.safeParse(
        parseJsonObject(await readFile(join(this.#directory, name), 'utf8')),
      ).data
      if (notice !== undefined && name === `${notice.id}.json`) notices.push(notice)
    }
    return notices.sort((left, right) => left.at - right.at)
  }

  #pathOf(id: string): string {
    return join(this.#directory, `${id}.json`)
  }
}
