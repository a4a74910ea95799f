// Keys, values and counters on this host's disk, shared by its processes; they survive a restart and a crash, and end after the time
// that has passed, whatever the wall clock shows.
import { chmodSync, type FSWatcher, watch } from 'node:fs'
import { join } from 'node:path'
import type { Database } from 'lmdb'
import { makeDirectories } from '../../disk/directories.js'
import { messageOf, reasonOf } from '../../json/message.js'
import type { Entry, Watch } from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { TableStore } from '../key-value/counters.js'
import { keyIn, type OrderedTable } from '../key-value/table.js'
import { checkHeader, loadLmdb } from './prerequisites.js'

interface LmdbKeyValueOptions {
  /** On a local filesystem; made with mode 0700 if it is missing. */
  readonly dir: string
  /** Its name in errors, such as `the quota store`. */
  readonly name: string
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
}

/** A change is visible to every process when its operation resolves, and is flushed to the disk right after. */
export class LmdbKeyValueStore extends TableStore {
  /** Throws when the directory cannot be opened. */
  constructor({ dir, name, clock }: LmdbKeyValueOptions) {
    super(new LmdbTable(dir, name), clock)
  }
}

/** A synchronous transaction would block the event loop while another process writes, so each is asynchronous. */
class LmdbTable implements OrderedTable {
  #db: Database<Buffer, string>
  #name: string
  #dir: string
  #underWay = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  constructor(dir: string, name: string) {
    this.#name = name
    this.#dir = dir
    try {
      const { open } = loadLmdb()
      makeDirectories(dir, 0o700)
      checkHeader(dir)
      this.#db = open<Buffer, string>({
        path: dir,
        noSubdir: false,
        encoding: 'binary',
        // A batched commit that fails rejects a promise that nobody handles, which would end the process.
        eventTurnBatching: false,
      })
      // The directory may exist with a mode that lets others read.
      for (const file of ['data.mdb', 'lock.mdb']) chmodSync(join(dir, file), 0o600)
    } catch (cause) {
      throw new Error(`${name} in ${dir} cannot be opened: ${reasonOf(cause)}`, { cause })
    }
  }

  get(key: string): string | undefined {
    return this.#db.get(key)?.toString()
  }

  entry(key: string): Entry | undefined {
    const text = this.get(key)
    return text === undefined ? undefined : decode(key, text)
  }

  put(key: string, value: string | Entry): void {
    this.#db.put(key, Buffer.from(typeof value === 'string' ? value : encode(value)))
  }

  remove(key: string): void {
    this.#db.remove(key)
  }

  keys(start: string, end: string, limit: number, reverse = false): string[] {
    // An array, as the caller changes the table.
    return [...this.#db.getKeys({ start, end, limit, reverse, exclusiveStart: true })]
  }

  /** @throws {Error} after `close` */
  refresh(): void {
    this.#checkOpen()
    this.#db.resetReadTxn()
  }

  flush(): Promise<unknown> {
    return this.#db.flushed
  }

  async transact<T>(act: () => T): Promise<T> {
    this.#checkOpen()
    const transaction = this.#db.transaction(act)
    this.#underWay.add(transaction)
    try {
      return await transaction
    } catch (error) {
      const { commitError } = error as { commitError?: Promise<never> }
      if (commitError === undefined) throw error
      // The cause is a promise of its own, which has to be handled here.
      const cause = await commitError.catch((reason: unknown) => reason)
      throw new Error(`${this.#name} could not be written: ${messageOf(cause)}`, { cause })
    } finally {
      this.#underWay.delete(transaction)
    }
  }

  /** Each commit of any process writes to the file. */
  watch(changed: () => void): Watch {
    let watcher: FSWatcher | undefined
    const close = () => {
      watcher?.close()
      watcher = undefined
    }
    try {
      watcher = watch(join(this.#dir, 'data.mdb'), { persistent: false }, changed).once('error', close)
    } catch {
      // The host has no watches left. The caller notices that no notices arrive, and reads more often.
    }
    return {
      get isLive() {
        return watcher !== undefined
      },
      close,
    }
  }

  /** Idempotent; waits for pending operations, which LMDB's own close would abort. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#underWay).then(() => this.#db.close())
    return this.#closing
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new Error(`${this.#name} is closed`)
  }
}

function encode({ value, version, owner, writtenAt, endsAt }: Entry): string {
  return `${endsAt} ${writtenAt} ${version} ${owner} ${value}`
}

/** @throws {Error} if the text is not an entry */
function decode(tableKey: string, text: string): Entry {
  const [head = '', ends, written, version, owner] = /^(\S+) (\S+) (\S+) (\S*) /.exec(text) ?? []
  const [endsAt, writtenAt] = [Number(ends), Number(written)]
  if (version === undefined || owner === undefined || Number.isNaN(endsAt) || !Number.isFinite(writtenAt))
    throw new Error(`a stored entry of ${text.length} characters cannot be read`)
  return { key: keyIn(tableKey), value: text.slice(head.length), version, owner, writtenAt, endsAt }
}
