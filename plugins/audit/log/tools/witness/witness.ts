// A witness of c2sp.org/tlog-witness: it cosigns a checkpoint of a log only if that follows from the one it cosigned
// before. Checking and storing happen in one synchronous section, so that no two requests pass with the same old size.

import type { Clock, Signer } from '@svc/core'
import { type FileSystem, nodeFileSystem } from '../../files/file-system.js'
import { type AddCheckpoint, parseAddCheckpoint } from '../../format/add-checkpoint.js'
import { areEqual } from '../../format/digest.js'
import { AuditError } from '../../format/errors.js'
import {
  COSIGNATURE_TYPE,
  ED25519_TYPE,
  formatNote,
  judgeNote,
  MAX_SIGNATURES,
  type Note,
} from '../../format/note.js'
import { namedKey } from '../../format/vkey.js'
import { cosign, formatVkey } from '../../keys/note-keys.js'
import { verifierFromPublicKey } from '../../keys/public-key.js'
import { EMPTY_ROOT, verifyConsistency } from '../../merkle/tree-hash.js'
import { type Cosigned, WitnessState } from './state.js'
import { readTrustedLogs, type TrustedLog } from './trusted-logs.js'

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
