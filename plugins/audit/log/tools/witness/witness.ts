// A witness of c2sp.org/tlog-witness: it cosigns a checkpoint of a log only if that follows from the one it cosigned
// before. Checking and storing happen in one synchronous section, so that no two requests pass with the same old size.

import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Signer } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { tryLock } from '../../files/directory-lock.js'
import {
  APPEND_CREATE,
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  nodeFileSystem,
  READ_WRITE_CREATE,
  readTextFile,
  replaceFile,
  sizeOf,
  withFile,
  writeFully,
} from '../../files/file-system.js'
import { requireLocal } from '../../files/local-file-system.js'
import {
  type AddCheckpoint,
  checkpointText,
  type Head,
  judgeCosignature,
  parseAddCheckpoint,
  parseAnyCheckpoint,
} from '../../format/checkpoint.js'
import { areEqual } from '../../format/digest.js'
import { AuditError, SignerKeyError } from '../../format/errors.js'
import {
  COSIGNATURE_TYPE,
  ED25519_TYPE,
  formatNote,
  judgeNote,
  MAX_SIGNATURES,
  type NamedKey,
  type Note,
  namedKey,
  parseNote,
  parseVkey,
} from '../../format/note.js'
import type { NoteVerifier } from '../../format/verifier.js'
import { verifierFromPublicKey } from '../../keys/public-key.js'
import { cosign, formatVkey } from '../../keys/signatures.js'
import { EMPTY_ROOT, verifyConsistency } from '../../merkle/tree-hash.js'

// The state of a witness: for each log a file with the newest cosigned checkpoint and a copy of it, each replaced
// atomically and synced before a response is sent. A file that cannot be read is repaired from the copy. One process at
// a time uses the directory.

const LOCK = '.svc-witness-lock'
const MAX_CONFLICT_BYTES = 1_048_576
const COPIES = ['checkpoint', 'checkpoint-copy'] as const

/** A cosigned checkpoint, and its note as it is stored. */
interface Cosigned {
  readonly head: Head
  readonly signed: string
}

class WitnessState {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #own: NamedKey
  readonly #lock: number
  readonly #latest = new Map<string, Cosigned>()

  /** @throws {AuditError} `lock_failed` while another process uses the directory. */
  constructor(dir: string, port: FileSystem, own: NamedKey) {
    this.#dir = dir
    this.#port = port
    this.#own = own
    port.mkdirSync(dir, { recursive: true, mode: DIRECTORY_MODE })
    requireLocal(port, dir)
    this.#lock = port.openSync(join(dir, LOCK), READ_WRITE_CREATE, FILE_MODE)
    if (!tryLock(this.#lock)) {
      port.closeSync(this.#lock)
      throw new AuditError('lock_failed', `another process uses ${dir}`)
    }
  }

  /**
   * The newest checkpoint of the log that this witness cosigned; undefined if it never did.
   *
   * @throws {AuditError} `read_failed` if the file and its copy are damaged: they must not count as none.
   */
  latest(origin: string): Cosigned | undefined {
    const known = this.#latest.get(origin)
    if (known !== undefined) return known
    const name = originHash(origin)
    const texts = this.#texts(name)
    const states = texts.map((text) => this.#parse(text)).filter((state) => state?.head.origin === origin)
    const newest = newestOf(states)
    if (newest === undefined) {
      if (texts.every((text) => text === undefined)) return undefined
      throw new AuditError(
        'read_failed',
        `no copy of ${name} in ${this.#dir} is a checkpoint of ${origin} that this witness cosigned: restore one from a backup`,
      )
    }
    if (texts.some((text) => text !== newest.signed)) this.store(newest.head, newest.signed)
    this.#latest.set(origin, newest)
    return newest
  }

  /** The newest cosigned checkpoint with its signatures, for the monitors of the log. */
  signedText(hashOfOrigin: string): string | undefined {
    return newestOf(this.#texts(hashOfOrigin).map((text) => this.#parse(text)))?.signed
  }

  /**
   * Stores the cosigned checkpoint, on disk when it returns.
   *
   * @throws {AuditError} `write_failed` for what this class would not read again.
   */
  store(head: Head, signed: string): void {
    const state = this.#parse(signed)
    if (state?.signed !== signed) {
      throw new AuditError('write_failed', `the cosigned checkpoint of ${head.origin} cannot be read again`)
    }
    for (const copy of COPIES) {
      replaceFile(this.#port, join(this.#dir, `${originHash(head.origin)}.${copy}`), Buffer.from(signed))
    }
    this.#latest.set(head.origin, state)
  }

  /**
   * Keeps two heads of one size with different roots, each signed by the log: they prove a fork.
   *
   * @returns whether the fork is new and there was room for it.
   */
  keepFork({ head, signed }: Cosigned, forked: Cosigned): boolean {
    const port = this.#port
    const file = join(this.#dir, `${originHash(head.origin)}.conflicts`)
    const bytes = Buffer.from(signed + forked.signed)
    if ((sizeOf(port, file) ?? 0) + bytes.length > MAX_CONFLICT_BYTES) return false
    if (readTextFile(port, file)?.includes(checkpointText(forked.head))) return false
    withFile(port, file, APPEND_CREATE, (fd) => {
      writeFully(port, fd, bytes)
      port.fsyncSync(fd)
    })
    return true
  }

  close(): void {
    this.#port.closeSync(this.#lock)
  }

  #texts(name: string): (string | undefined)[] {
    return COPIES.map((copy) => readTextFile(this.#port, join(this.#dir, `${name}.${copy}`)))
  }

  /** The state in the form in which it is stored, whatever the number of signature lines that the text has. */
  #parse(text: string | undefined): Cosigned | undefined {
    const note = text === undefined ? undefined : parseNote(text, Number.POSITIVE_INFINITY)
    if (note === undefined || judgeCosignature(note, this.#own).kind !== 'valid') return undefined
    const head = parseAnyCheckpoint(note.text)
    return head === undefined ? undefined : { head, signed: formatNote(note) }
  }
}

function newestOf(states: readonly (Cosigned | undefined)[]): Cosigned | undefined {
  const [first, ...rest] = states.filter((state) => state !== undefined)
  return rest.reduce((newest, state) => {
    return newest !== undefined && newest.head.size >= state.head.size ? newest : state
  }, first)
}

/** Lower-case hexadecimal SHA-256. */
export function originHash(origin: string): string {
  return hash('sha256', origin, 'hex')
}

// The logs that a witness knows: a file of verifier keys, one a line. It is read for each request, so an operator adds
// and removes keys without a restart.

interface TrustedLog {
  /** Name of the log's keys in signature lines. */
  readonly name: string
  readonly keys: NoteVerifier[]
}

/**
 * Reads `<verifier key>` lines; if the origin differs from the key's name, it follows after a space. Blank lines and
 * `#` comments are ignored.
 *
 * @returns the logs by origin.
 * @throws {AuditError} `read_failed`, or {SignerKeyError} naming the line that is not a key.
 */
export async function readTrustedLogs(path: string): Promise<Map<string, TrustedLog>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the logs at ${path}: ${messageOf(cause)}`, cause)
  }
  const logs = new Map<string, TrustedLog>()
  for (const [index, line] of text.split('\n').entries()) {
    const entry = line.trim()
    if (entry === '' || entry.startsWith('#')) continue
    const [vkey = '', ...rest] = entry.split(' ')
    const parsed = parseVkey(vkey, ED25519_TYPE, verifierFromPublicKey)
    if (parsed === undefined) {
      throw new SignerKeyError(
        'key_malformed',
        `${path}:${index + 1}: not a verifier key as npx svc-sdk audit vkey prints it`,
      )
    }
    const origin = rest.length === 0 ? parsed.name : rest.join(' ')
    const known = logs.get(origin)
    if (known === undefined) logs.set(origin, { name: parsed.name, keys: [parsed.key] })
    else if (known.name === parsed.name) known.keys.push(parsed.key)
    else {
      throw new SignerKeyError('key_malformed', `${path}:${index + 1}: ${origin} has keys of another name`)
    }
  }
  return logs
}

export interface WitnessOptions {
  /** The directory of the state; one process at a time uses it. */
  readonly dir: string
  /** The file with the verifier keys of the logs. */
  readonly logs: string
  /** Name of the witness in its cosignatures, such as `witness.example.com/w1`. */
  readonly name: string
  readonly signer: Signer & { readonly publicKey: Uint8Array }
  readonly clock?: Pick<Clock, 'now'>
  readonly fileSystem?: FileSystem
  /** Called once for each head that its log signed with another root than the cosigned one of the same size. */
  readonly onFork?: (origin: string, why: string) => void
}

export interface WitnessResponse {
  readonly status: number
  readonly body: string
  readonly contentType?: string
}

const SIZE_TYPE = 'text/x.tlog.size'
const KEY_NAME = /^[^\s+\p{Cc}]{1,255}$/u
const PLAIN = 'text/plain; charset=utf-8'

export class Witness {
  readonly #options: WitnessOptions
  readonly #state: WitnessState

  /** @throws {AuditError} `bad_config`; `lock_failed` while another process uses the directory. */
  constructor(options: WitnessOptions) {
    const { dir, name, signer, fileSystem = nodeFileSystem } = options
    if (!KEY_NAME.test(name)) {
      throw new AuditError('bad_config', 'the name of a witness has no space, plus sign or control character')
    }
    this.#options = options
    this.#state = new WitnessState(
      dir,
      fileSystem,
      namedKey(name, COSIGNATURE_TYPE, verifierFromPublicKey(signer.publicKey)),
    )
  }

  /** Its verifier key. */
  get vkey(): string {
    return formatVkey(this.#options.name, COSIGNATURE_TYPE, this.#options.signer.publicKey)
  }

  /** Handles `POST add-checkpoint`. Errors of the disk and of the file of logs reject. */
  async addCheckpoint(body: string): Promise<WitnessResponse> {
    const request = parseAddCheckpoint(body)
    if (request === undefined) return refusal(400, 'the request is malformed')
    const { origin } = request.checkpoint
    const log = (await readTrustedLogs(this.#options.logs)).get(origin)
    if (log === undefined) return refusal(404, 'the log is not known')
    const { kind } = judgeNote(request.note, log.name, log.keys)
    if (kind !== 'verified')
      return refusal(403, 'no key that is trusted for this log has signed the checkpoint')
    return this.#judge(request, log)
  }

  /** Handles `GET <origin hash>/checkpoint`. */
  checkpoint(hashOfOrigin: string): WitnessResponse {
    const text = this.#state.signedText(hashOfOrigin)
    return text === undefined
      ? refusal(404, 'no checkpoint of this log was cosigned')
      : { status: 200, body: text, contentType: PLAIN }
  }

  close(): void {
    this.#state.close()
  }

  /** Synchronous, so that a request sees the result of the one before. */
  #judge({ oldSize, proof, note, checkpoint }: AddCheckpoint, log: TrustedLog): WitnessResponse {
    if (oldSize > checkpoint.size) return refusal(400, 'the old size is larger than the checkpoint')
    const latest = this.#state.latest(checkpoint.origin)
    const expected = latest?.head.size ?? 0
    const verified = formatNote(verifiedPart(note, log))
    if (latest !== undefined && checkpoint.size === expected && checkpoint.root !== latest.head.root) {
      return this.#fork(latest, { head: checkpoint, signed: verified })
    }
    if (oldSize !== expected) return { status: 409, body: `${expected}\n`, contentType: SIZE_TYPE }
    const follows =
      oldSize === 0 || latest === undefined
        ? proof.length === 0 && (checkpoint.size > 0 || checkpoint.root === EMPTY_ROOT)
        : verifyConsistency(latest.head, checkpoint, proof)
    if (!follows) {
      // A wrong proof says nothing of the log: anyone can send one with a checkpoint of the log.
      return refusal(
        422,
        `the proof does not show that its leaves follow from the ${expected} that were cosigned`,
      )
    }
    const { name, signer, clock = Date } = this.#options
    const line = cosign(note.text, name, signer, clock.now())
    this.#state.store(checkpoint, verified + line)
    return { status: 200, body: line, contentType: PLAIN }
  }

  #fork(latest: Cosigned, forked: Cosigned): WitnessResponse {
    const why = `the log has signed another root of ${latest.head.size} leaves than the one that was cosigned`
    if (this.#state.keepFork(latest, forked)) this.#options.onFork?.(latest.head.origin, why)
    return refusal(422, why)
  }
}

/** The note with the signatures of the log's trusted keys only, and with room for the cosignature. */
function verifiedPart({ text, signatures }: Note, { name, keys }: TrustedLog): Note {
  const ids = keys.map((key) => key.noteId(name, ED25519_TYPE))
  const own = signatures.filter((signed) => signed.name === name)
  const first = ids.flatMap((id) => own.find(({ keyId }) => areEqual(id, keyId)) ?? [])
  return { text, signatures: first.slice(0, MAX_SIGNATURES - 1) }
}

function refusal(status: number, why: string): WitnessResponse {
  return { status, body: `${why}\n`, contentType: PLAIN }
}
