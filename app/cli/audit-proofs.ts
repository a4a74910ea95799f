// `svc audit prove`, `check-proof`, `consistency`, `tiles` and `vkey`: for a reader without a copy of the log.
import { defined, visibleInLine } from '@svc/core/json'
import { AuditError } from '@svc/plugin-audit/log'
import {
  checkConsistency,
  checkProofs,
  type LogFilter,
  type ProofJudgement,
  proveRecord,
  proveRecords,
  publishTiles,
  readInput,
  readKeys,
  vkeysOfLog,
} from '@svc/plugin-audit/tools'
import { writeText } from './audit-files.js'
import type { CliIo } from './io.js'

export interface ProveArguments extends LogFilter {
  spanId?: string
  all?: boolean
  out?: string
}

export async function prove(dir: string, options: ProveArguments, io: CliIo): Promise<void> {
  const { out, all = false, ...filter } = options
  const proof = all ? await proveRecords(dir, filter) : await proveRecord(dir, idsOf(filter))
  if (out === undefined) {
    await io.out(proof, true)
    return
  }
  await writeText(out, proof)
  await io.out(`${out}: ${Buffer.byteLength(proof)} bytes\n`)
}

function idsOf({ traceId, spanId }: LogFilter) {
  if (traceId === undefined) throw new AuditError('bad_config', 'give --trace-id, or --all with a filter')
  return { traceId, ...defined({ spanId }) }
}

export interface CheckProofArguments {
  keys: string
  json?: boolean
}

export async function checkProofFile(file: string, options: CheckProofArguments, io: CliIo): Promise<void> {
  const keys = await readKeys(options.keys)
  const judged = await checkProofs((await readInput(file, 'proof')).toString(), keys)
  const isProven = judged.length > 0 && judged.every(({ valid }) => valid)
  io.exit(isProven ? 0 : 1)
  if (options.json) {
    await io.out(`${JSON.stringify(judged.length === 1 ? judged[0] : judged, null, 2)}\n`)
    return
  }
  for (const each of judged) await io.out(describeJudgement(each))
  if (judged.length > 1) {
    const proven = judged.filter(({ valid }) => valid).length
    await io.out(`${proven} of ${judged.length} records proven\n`)
  }
}

function describeJudgement(judged: ProofJudgement): string {
  if (!judged.valid) return `NOT PROVEN: ${judged.reason}\n`
  const { record, origin, leaf, size, keyId } = judged
  const { ts, tenant, server, tool, trace_id, span_id } = record
  const what = visibleInLine(`${ts} ${tenant} ${server}/${tool}, trace ${trace_id}, span ${span_id}`)
  return `${what}\nleaf ${leaf} of the ${size} of ${visibleInLine(origin)}, sealed by ${keyId}\nproven\n`
}

export interface ConsistencyArguments {
  dir: string
  keys: string
  json?: boolean
}

export async function consistency(
  older: string,
  newer: string,
  { dir, keys, json }: ConsistencyArguments,
  io: CliIo,
): Promise<void> {
  const [first = '', second = ''] = await Promise.all(
    [older, newer].map(async (file) => String(await readInput(file, 'checkpoint'))),
  )
  const judged = await checkConsistency(dir, first, second, await readKeys(keys))
  io.exit(judged.consistent ? 0 : 1)
  if (json) await io.out(`${JSON.stringify(judged, null, 2)}\n`)
  else if (judged.consistent) {
    const { origin, older: from, newer: to, proof } = judged
    await io.out(
      `${visibleInLine(origin)}: ${from} leaves are a prefix of ${to} (${proof.length} hashes)\nconsistent\n`,
    )
  } else await io.out(`NOT CONSISTENT: ${judged.reason}\n`)
}

/** Writes the tree for clients of transparency logs. It names the tiles that the log cannot give, and succeeds. */
export async function tiles(
  dir: string,
  { out, entries = false }: { out: string; entries?: boolean },
  io: CliIo,
): Promise<void> {
  const { origin, size, written, absent } = await publishTiles(dir, out, { entries })
  for (const path of absent) {
    const lacks = path.startsWith('tile/entries/') ? 'entries, or one is too long' : 'hashes'
    io.err(`${path} is absent: the log has not all of its ${lacks}\n`)
  }
  const what = `${written} new ${written === 1 ? 'tile' : 'tiles'}, ${absent.length} absent`
  await io.out(`${out}: ${size} leaves of ${visibleInLine(origin)}, ${what}\n`)
}

export async function vkey(dir: string, io: CliIo): Promise<void> {
  for (const key of await vkeysOfLog(dir)) await io.out(`${key}\n`)
}
