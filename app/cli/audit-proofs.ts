// `svc audit prove` and `check-proof`: one record's inclusion, for a reader without a copy of the log.

import { readFile, writeFile } from 'node:fs/promises'
import { messageOf } from '@svc/core/json'
import { AuditError, checkProof, proveRecord, readKeys } from '@svc/plugin-audit/log'
import type { CliIo } from './io.js'
import { printable } from './table.js'

export interface ProveArguments {
  traceId: string
  spanId?: string
  out?: string
}

export async function prove(dir: string, { out, ...ids }: ProveArguments, io: CliIo): Promise<void> {
  const proof = await proveRecord(dir, ids)
  if (out === undefined) {
    await io.out(proof)
    return
  }
  try {
    await writeFile(out, proof)
  } catch (cause) {
    throw new AuditError('write_failed', `cannot write ${out}: ${messageOf(cause)}`, cause)
  }
  await io.out(`${out}: ${Buffer.byteLength(proof)} bytes\n`)
}

export interface CheckProofArguments {
  keys: string
  json?: boolean
}

export async function checkProofFile(file: string, options: CheckProofArguments, io: CliIo): Promise<void> {
  const keys = await readKeys(options.keys)
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the proof at ${file}: ${messageOf(cause)}`, cause)
  }
  const judged = checkProof(text, keys)
  io.exit(judged.valid ? 0 : 1)
  if (options.json) {
    await io.out(`${JSON.stringify(judged, null, 2)}\n`)
  } else if (judged.valid) {
    const { record, origin, leaf, size, keyId } = judged
    const { ts, tenant, server, tool, trace_id, span_id } = record
    const what = printable(`${ts} ${tenant} ${server}/${tool}, trace ${trace_id}, span ${span_id}`)
    await io.out(`${what}\nleaf ${leaf} of the ${size} of ${origin}, sealed by ${keyId}\nproven\n`)
  } else {
    await io.out(`NOT PROVEN: ${judged.reason}\n`)
  }
}
