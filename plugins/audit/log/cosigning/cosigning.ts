// Has the newest checkpoint cosigned by witnesses, in the background: after each seal the witnesses that have not
// cosigned it are asked at once, and the checkpoint is appended again with the cosignatures that came.

import { join } from 'node:path'
import type { Meter } from '@svc/core'
import { defined, messageOf } from '@svc/core/json'
import type { LockedDirectory } from '../files/directory-lock.js'
import { syncPath } from '../files/file-system.js'
import { isBy, judgeCosignature } from '../format/checkpoint.js'
import { consistencyRanges } from '../format/merkle-proof.js'
import { isVerified, type Note, signatureLine } from '../format/note.js'
import { checkpointFile, dayOfInstant } from '../format/paths.js'
import type { NoteVerifier } from '../format/verifier.js'
import { parseWitnessKey } from '../keys/signatures.js'
import { appendNote, newestCheckpoint, type StoredCheckpoint } from '../tree/checkpoint-file.js'
import { rootsOf } from '../tree/tree-store.js'
import { Backoff } from '../upload/backoff.js'
import type { WitnessConfig } from './config.js'
import { WitnessClient } from './witness-client.js'

const REQUEST_TIMEOUT_MS = 10_000
/** Milliseconds. */
const RETRY_DELAYS = { min: 500, max: 60_000 }
/** How long closing waits for the cosignatures of the last checkpoint. */
const CLOSE_TIMEOUT_MS = 5_000
const MS_PER_SECOND = 1_000

interface CosigningOptions extends LockedDirectory {
  readonly meter: Meter
  readonly origin: string
  /** The keys that sign its checkpoints now; a witness gets no checkpoint of another key. */
  readonly keys: readonly NoteVerifier[]
  readonly witnesses: readonly WitnessConfig[]
  readonly quorum: number
  readonly random: () => number
  readonly onError: (error: Error) => void
}

interface WitnessStatus {
  readonly name: string
  /** Leaves of the newest checkpoint that it cosigned, as far as this process knows. */
  readonly size?: number
  /** Why it did not cosign the newest checkpoint. */
  readonly error?: string
}

export interface CosigningStatus {
  readonly quorum: number
  /** Leaves of the newest checkpoint that a quorum has cosigned. */
  readonly size?: number
  readonly witnesses: readonly WitnessStatus[]
  /** Set while the newest checkpoint lacks a quorum although all witnesses were asked. */
  readonly warning?: string
}

interface Member {
  readonly client: WitnessClient
  readonly backoff: Backoff
  /** The earliest time of the next request, by the monotonic clock. */
  retryAt: number
  size?: number
  /** The time of its last cosignature by its clock, seconds since the epoch. */
  time?: number
  error?: string
}

export class Cosigning {
  readonly #options: CosigningOptions
  readonly #members: readonly Member[]
  readonly #abort = new AbortController()
  #running: Promise<void> | undefined
  #isStale = false
  #isClosing = false
  #size: number | undefined
  #warning: string | undefined

  constructor(options: CosigningOptions) {
    this.#options = options
    this.#members = options.witnesses.map(({ url, key }) => ({
      client: new WitnessClient(url, parseWitnessKey(key), REQUEST_TIMEOUT_MS),
      backoff: new Backoff(options.random, RETRY_DELAYS),
      retryAt: 0,
    }))
  }

  get status(): CosigningStatus {
    const witnesses = this.#members.map(({ client, size, error }) => ({
      name: client.key.name,
      ...defined({ size, error }),
    }))
    return {
      quorum: this.#options.quorum,
      ...defined({ size: this.#size }),
      witnesses,
      ...defined({ warning: this.#warning }),
    }
  }

  /** The time at which the last member of a quorum cosigned, by its clock, milliseconds since the epoch. */
  get witnessedAt(): number | undefined {
    const { quorum } = this.#options
    const newest = this.#newest()
    if (newest !== undefined) this.#takeOver(newest)
    const times = this.#members.flatMap(({ time }) => time ?? []).sort((a, b) => b - a)
    const time = times[quorum - 1]
    return time === undefined ? undefined : time * MS_PER_SECOND
  }

  /** Call it when a checkpoint is on disk. Returns at once; errors go to `onError` and to the status. */
  request(): void {
    this.#isStale = true
    this.#running ??= this.#run()
  }

  /** Waits a limited time for the last checkpoint. */
  async close(): Promise<void> {
    this.#isClosing = true
    const timer = setTimeout(() => this.#abort.abort(new Error('the log is closing')), CLOSE_TIMEOUT_MS)
    await this.#running
    clearTimeout(timer)
  }

  async #run(): Promise<void> {
    while (this.#isStale && !this.#abort.signal.aborted) {
      this.#isStale = false
      try {
        await this.#round()
      } catch (cause) {
        this.#warning = `cosigning failed: ${messageOf(cause)}`
      }
    }
    this.#running = undefined
  }

  async #round(): Promise<void> {
    const { dir, port, clock, quorum } = this.#options
    const newest = this.#newest()
    if (newest === undefined) return
    const { size } = newest.head
    this.#takeOver(newest)
    const now = clock.monotonic()
    const asked = this.#members.filter((member) => {
      return member.size !== size && (member.retryAt <= now || this.#isClosing)
    })
    if (asked.length > 0) {
      // The writer of the checkpoint may have died before it was on disk.
      await syncPath(port, join(dir, checkpointFile(newest.day)))
      await syncPath(port, dir)
      const lines = await this.#ask(asked, newest)
      if (lines.length > 0) await this.#append(newest, asked, lines)
    }
    const have = this.#members.filter((member) => member.size === size).length
    if (have >= quorum) {
      this.#size = size
      this.#warning = undefined
    } else {
      const why = this.#members.flatMap(({ client, error }) => (error ? `${client.key.name}: ${error}` : []))
      this.#warning = `${have} of ${quorum} witnesses have cosigned the newest checkpoint (${why.join('; ')})`
    }
  }

  /** The newest checkpoint that the log has signed: a process without its key can append others. */
  #newest(): StoredCheckpoint | undefined {
    const { dir, port, origin, keys } = this.#options
    const isSigned = (note: Note) => isVerified(note, origin, keys)
    return newestCheckpoint(port, dir, origin, isSigned)
  }

  /** Takes over the cosignatures in the file after a restart. */
  #takeOver({ head, note }: StoredCheckpoint): void {
    for (const member of this.#members) {
      const judged = judgeCosignature(note, member.client.key)
      if (judged.kind !== 'valid') continue
      member.client.hasCosigned(head.size)
      member.size = head.size
      member.time = Math.max(judged.time, member.time ?? 0)
    }
  }

  /** Asks the witnesses; returns the cosignatures received. */
  async #ask(members: readonly Member[], newest: StoredCheckpoint): Promise<string[]> {
    const { dir, port } = this.#options
    const { head, note, signed } = newest
    const proof = (older: number) => rootsOf(port, dir, consistencyRanges(older, head.size))
    const submission = { note, signed, size: head.size, proof }
    const responses = await Promise.all(
      members.map(async (member) => {
        try {
          const response = await member.client.cosign(submission, this.#abort.signal)
          if (response.kind === 'ahead') {
            this.#requireAhead(response.size)
            return []
          }
          member.size = head.size
          member.time = response.time
          delete member.error
          member.backoff.reset()
          return [response.line]
        } catch (cause) {
          this.#failed(member, messageOf(cause))
          return []
        }
      }),
    )
    return responses.flat()
  }

  /** Another process may have sealed more, and shown it. @throws {Error} if none has. */
  #requireAhead(size: number): void {
    if ((this.#newest()?.head.size ?? 0) >= size) {
      this.#isStale = true
      return
    }
    throw new Error(
      `it has cosigned ${size} leaves of this log, which has fewer: the log was rolled back, or another copy of it is written`,
    )
  }

  #failed(member: Member, error: string): void {
    const { clock, meter, onError } = this.#options
    const isKnown = member.error === error
    member.error = error
    member.retryAt = clock.monotonic() + member.backoff.next()
    meter.count('svc_audit_cosign_failures_total')
    if (!isKnown) onError(new Error(`the witness ${member.client.key.name} did not cosign: ${error}`))
  }

  /** Appends the checkpoint again, with the cosignatures it has and the new ones. */
  async #append({ head, note }: StoredCheckpoint, asked: readonly Member[], lines: string[]): Promise<void> {
    const kept = note.signatures
      .filter((signature) => !asked.some(({ client }) => isBy(signature, client.key)))
      .map(({ name, keyId, signature }) => signatureLine(name, keyId, signature))
    const day = dayOfInstant(this.#options.clock.now()) ?? ''
    const signed = `${note.text}\n${kept.join('')}${lines.join('')}`
    await appendNote(this.#options, head.origin, checkpointFile(day), signed)
  }
}
