// Reads the journal of a dead process as far as it is signed. Only signed lengths decide how much is read at once.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { defined, parseJsonObject, sha256Hex } from '@svc/core/json'
import { SignerKeyError } from '../log/format/errors.js'
import type { SignatureVerifier } from '../log/format/verifier.js'
import { verifierFromLine } from '../log/keys/public-key.js'
import { hasSigned } from '../log/keys/signed-json.js'
import { BatchChain } from './batch-chain.js'
import { entryOf, type Intent, isCallRecord } from './entry.js'
import type { Segment } from './segment.js'

/** What makes the intents of a file those of a process of this log. */
export interface IntentTrust {
  readonly logId: string | null
  /** Keys that the log trusts now. */
  readonly keys: readonly Pick<SignatureVerifier, 'keyId' | 'verify'>[]
}

interface JournalContent {
  /** Intents without an outcome, in written order. */
  readonly open: Intent[]
  /** Why the file, or what follows its last valid batch, is refused. */
  readonly refused?: string
}

// A first line has about 400 bytes, that of a batch about 200.
const MAX_LINE_BYTES = 4096
// Batches between two turns of the event loop.
const SLICE = 64

/** An incomplete end was never acknowledged and is ignored. */
export async function readJournal(segment: Segment, trust: IntentTrust): Promise<JournalContent> {
  const open = new Map<number, Intent>()
  const refused = await readInto(open, segment, trust)
  return { open: [...open.values()], ...defined({ refused }) }
}

async function readInto(
  open: Map<number, Intent>,
  segment: Segment,
  trust: IntentTrust,
): Promise<string | undefined> {
  const { size } = segment
  const first = lineAt(segment, 0)
  if (first === undefined) return size < MAX_LINE_BYTES ? undefined : 'its first line is too long'
  const session = sessionOf(first, segment.name, trust)
  if (typeof session === 'string') return session
  const chain = new BatchChain(`${first}\n`)
  for (let at = Buffer.byteLength(first) + 1; at < size; ) {
    const what = `batch ${chain.next}`
    const line = lineAt(segment, at)
    if (line === undefined && size - at < MAX_LINE_BYTES) return undefined
    const batch = line === undefined ? undefined : chain.verified(line, session)
    if (line === undefined || batch === undefined) return `${what} is not signed by the process that it is of`
    const start = at + Buffer.byteLength(line) + 1
    at = start + batch.bytes
    if (at > size) return undefined
    const bytes = segment.read(start, batch.bytes)
    if (sha256Hex(bytes) !== batch.sha256) return `the lines of ${what} were changed`
    const wrong = take(open, bytes.toString())
    if (wrong !== undefined) return `${what} ${wrong}`
    if (chain.next % SLICE === 0) await nextTurn()
  }
  return undefined
}

/** The line that begins at the offset; undefined without a newline within the limit. */
function lineAt(segment: Segment, offset: number): string | undefined {
  const bytes = segment.read(offset, MAX_LINE_BYTES)
  const end = bytes.indexOf('\n')
  return end < 0 ? undefined : bytes.toString('utf8', 0, end)
}

/** The key of the process, or why the file is refused. */
function sessionOf(
  firstLine: string,
  name: string,
  { logId, keys }: IntentTrust,
): SignatureVerifier | string {
  const line = parseJsonObject(firstLine)
  const { intents, log_id: of, file, session, key_id: keyId } = line ?? {}
  if (line === undefined || intents !== 1) return 'its first line is not one of a journal of intents'
  const signer = keys.find((key) => key.keyId === keyId)
  if (signer === undefined || !hasSigned(line, signer))
    return 'no key that the log trusts has signed its first line'
  if (file !== name || of !== logId) return 'its first line is of another file or log'
  try {
    return verifierFromLine(String(session))
  } catch (error) {
    if (error instanceof SignerKeyError) return 'its first line names no key'
    throw error
  }
}

/** Takes the intents and outcomes of a batch; returns what is wrong with a line. */
function take(open: Map<number, Intent>, lines: string): string | undefined {
  for (const line of lines.split('\n').slice(0, -1)) {
    const entry = entryOf(line)
    if (entry === undefined) return 'has a line that is neither an intent nor an outcome'
    if (typeof entry === 'number') open.delete(entry)
    else if (!isCallRecord(entry.record)) return 'has an intent that is not of a call'
    else open.set(entry.serial, entry)
  }
  return undefined
}
