// `svc audit`: verifying and reading the audit log.
import { basename, join } from 'node:path'
import { visibleInLine } from '@svc/core/json'
import { AuditError, forkLog, resumeLog } from '@svc/plugin-audit/log'
import { startWitness, type TraceNode, traceTree } from '@svc/plugin-audit/tools'
import { Command, Option } from 'commander'
import { type BundleArguments, bundle, type CheckBundleArguments, checkBundle } from './audit-evidence.js'
import { type FetchArguments, fetchUploaded } from './audit-fetch.js'
import { signerIn } from './audit-files.js'
import {
  KEYS_HELP,
  type LogPlace,
  logOf,
  withFilter,
  withLog,
  withPlugin,
  withWitnesses,
} from './audit-options.js'
import {
  type CheckProofArguments,
  type ConsistencyArguments,
  checkProofFile,
  consistency,
  type ProveArguments,
  prove,
  tiles,
  vkey,
} from './audit-proofs.js'
import { badLines, formats, reasonsOf, type ShowOptions, show } from './audit-show.js'
import { stats } from './audit-stats.js'
import { type VerifyArguments, verify } from './audit-verify.js'
import { type CliIo, processIo } from './io.js'
import { withManual } from './manual.js'
import { ageOf, portOf, wholeNumber } from './option-values.js'
import { formatMilliseconds } from './table.js'

const DEFAULT_WITNESS_PORT = 8791
const QUIET_HELP = 'show no progress'
const intact = ['intact', 'not intact'] as const

export function auditCommand(io: CliIo = processIo()): Command {
  const audit = new Command('audit')
  for (const command of [...judging(io), ...reading(io), ...keeping(io)]) audit.addCommand(command)
  return audit
}

function judging(io: CliIo): Command[] {
  const verifying = withWitnesses(withLog(new Command('verify')))
    .description('check every record, signature and checkpoint of a log')
    .option('--keys <file>', KEYS_HELP)
    .option(
      '--against <checkpoint>',
      'a file with a checkpoint kept elsewhere, to which the log must still lead',
    )
    .option(
      '--since <checkpoint>',
      'a file with a checkpoint that was found intact before: verify only what follows it',
    )
    .option('--origin <origin>', 'the origin that the log must have')
    .option(
      '--passkeys <file>',
      'a policy that lists the passkeys of reviewers: every vote must be proven by one, and be theirs to cast',
    )
    .option('--write-keys <file>', 'if it is intact, write its keys there with the leaves that each may sign')
    .option('--max-unsealed <age>', 'how old a record may be that is not sealed, such as 30s or 5m', ageOf)
    .option('--strict', 'check every signature, even those that others cover')
    .option('--fast', 'check the journal, the tree and its roots, not the signature of each record')
    .option('--agents', 'compare the files of agents with the daily logs')
    .option('--allow-unsealed', 'accept a log without a journal, of a signer without a public key')
    .option('--json', 'print the result as JSON')
    .option('--quiet', QUIET_HELP)
    .action(async (dir: string | undefined, { policy, ...options }: VerifyArguments & LogPlace) =>
      verify(await logOf(dir, policy), options, io),
    )

  const proving = withFilter(withLog(new Command('prove')))
    .description('write the proof that records are in a log, which can be checked without the log')
    .option('--all', 'prove every record that matches, in one file')
    .option('--out <file>', 'write the proof to this file instead of standard output')
    .action(async (dir: string | undefined, { policy, ...options }: ProveArguments & LogPlace) =>
      prove(await logOf(dir, policy), options, io),
    )

  const checkingProof = new Command('check-proof')
    .description('check a proof: whether its records were sealed by one of the keys')
    .argument('<file>', 'the proof, as `audit prove` writes it')
    .requiredOption('--keys <file>', KEYS_HELP)
    .option('--json', 'print the result as JSON')
    .action((file: string, options: CheckProofArguments) => checkProofFile(file, options, io))

  const bundling = withFilter(new Command('bundle'))
    .description('write records and their proofs as one page, which checks itself in a browser')
    .argument('[dirs...]', 'the directories of the logs')
    .option('--policy <file>', "the gateway's policy, which says where the log is, instead of DIR")
    .option('--limit <n>', 'at most this number of records, from the first on', wholeNumber(1))
    .option('--out <file>', 'the page, an HTML file of at most 50 MiB')
    .option('--estimate', 'write nothing; say how many records and bytes it would have')
    .action(async ([first, ...more]: string[], { policy, ...options }: BundleArguments & LogPlace) =>
      bundle([await logOf(first, policy), ...more], options, io),
    )

  const checkingBundle = withWitnesses(new Command('check-bundle'))
    .description('check such a page without running it: its records, and that nothing in it was changed')
    .argument('<file>', 'the page, as `audit bundle` writes it')
    .requiredOption('--keys <file>', KEYS_HELP)
    .option('--json', 'print the result as JSON')
    .action((file: string, options: CheckBundleArguments) => checkBundle(file, options, io))

  const comparing = new Command('consistency')
    .description('check that a log was only appended to between two checkpoints')
    .argument('<old>', 'a file with the older checkpoint')
    .argument('<new>', 'a file with the newer one')
    .option('--dir <dir>', 'the log, whose tree gives the proof')
    .option('--policy <file>', "the gateway's policy, which says where the log is, instead of --dir")
    .requiredOption('--keys <file>', KEYS_HELP)
    .option('--json', 'print the result with the proof as JSON')
    .action(
      async (
        older: string,
        newer: string,
        { dir, policy, ...options }: ConsistencyArguments & ConsistencyLog,
      ) => consistency(older, newer, { ...options, dir: await logOf(dir, policy) }, io),
    )

  return [
    withManual(verifying, { example: '.svc/audit --keys keys.txt', verdicts: intact }),
    withManual(proving, { example: '.svc/audit --trace-id 4bf92f3577b34da6a3ce929d0e0e4736 --out proof' }),
    withManual(checkingProof, { example: 'proof --keys keys.txt', verdicts: ['proven', 'not proven'] }),
    withManual(bundling, { example: '.svc/audit --since 2026-11-01 --tenant acme --out evidence.html' }),
    withManual(checkingBundle, {
      example: 'evidence.html --keys keys.txt',
      verdicts: ['every record proven, the page unchanged', 'a record not proven, or the page changed'],
    }),
    withManual(comparing, {
      example: 'old.checkpoint new.checkpoint --dir .svc/audit --keys keys.txt',
      verdicts: ['consistent', 'not consistent'],
    }),
  ]
}

interface ConsistencyLog extends LogPlace {
  dir?: string
}

function reading(io: CliIo): Command[] {
  const showing = withFilter(new Command('show'))
    .description('print the records of a log')
    .argument('[dirs...]', 'the directory of the log; several only with --trace')
    .option('--policy <file>', "the gateway's policy, which says where the log is, instead of DIR")
    .option('--trace <id>', 'print the calls of this trace as a tree, of all the logs that are named')
    .option('--limit <n>', 'at most this number of records, from the first on', wholeNumber(1))
    .option('--last <n>', 'at most this number of records, the last ones', wholeNumber(1))
    .addOption(
      new Option('--format <format>', 'what is printed for each record').choices(formats).default('json'),
    )
    .addOption(
      new Option(
        '--explain',
        'print what decided each call, with the text of the policy that was in force',
      ).conflicts(['format', 'trace']),
    )
    .option('--all', 'print events and requests of the protocol too, in a table and with --explain')
    .addOption(
      new Option('--follow', 'print each record once, when it is sealed, until interrupted').conflicts([
        'last',
        'limit',
        'trace',
      ]),
    )
    .option(
      '--from <leaf>',
      'resume --follow at this leaf: one after the last that was printed',
      wholeNumber(0),
    )
    .action(
      async (given: string[], { trace, policy, ...options }: ShowOptions & LogPlace & { trace?: string }) => {
        const [first, ...more] = given
        const dirs = [await logOf(first, policy), ...more]
        if (trace !== undefined) return showTrace(dirs, trace, io)
        if (more.length > 0) throw new Error('several logs are read only with --trace')
        await show(dirs[0] ?? '', options, io)
      },
    )

  const counting = withFilter(withLog(new Command('stats')))
    .description('count calls, denials by reason, and latency percentiles of tools')
    .option('--json', 'print the statistics as JSON')
    .action(
      async (dir: string | undefined, { policy, ...options }: ShowOptions & LogPlace & { json?: boolean }) =>
        stats(await logOf(dir, policy), options, io),
    )

  const keys = withLog(new Command('vkey'))
    .description('print the verifier keys of a log (c2sp.org/signed-note), for other tools')
    .action(async (dir: string | undefined, place: LogPlace) => vkey(await logOf(dir, place.policy), io))

  return [
    withManual(showing, {
      example: '.svc/audit --format table --last 20',
      verdicts: ['the records are verified', 'a record is not, or is missing'],
    }),
    withManual(counting, { example: '.svc/audit --since 2026-10-01' }),
    withManual(keys, { example: '.svc/audit' }),
  ]
}

function keeping(io: CliIo): Command[] {
  const fetching = new Command('fetch')
    .description('restore an uploaded log from a control plane or its bucket')
    .argument('<source>', 'the URL of the control plane, or s3://BUCKET[/PREFIX]')
    .argument('<dir>', 'the directory that gets the log')
    .option('--log <id>', 'the id of the log, if the client has several')
    .option('--keys <file>', 'the public keys of the log, with which its beginning is checked')
    .option('--key-file <file>', 'a file with the API key of the control plane (default SVC_AUDIT_KEY)')
    .option('--tenant <tenant>', 'the owner of the upload: its tenant')
    .option('--environment <name>', 'its environment')
    .option('--client-name <name>', 'its client')
    .option('--client-version <version>', 'the version of the client')
    .option('--json', 'print the result as JSON')
    .option('--quiet', QUIET_HELP)
    .action((source: string, dir: string, options: FetchArguments) => fetchUploaded(source, dir, options, io))

  const resuming = withLog(new Command('resume'))
    .description('continue a log that was copied, restored or moved; only if the original is gone')
    .action(async (dir: string | undefined, place: LogPlace) => resume(await logOf(dir, place.policy), io))

  const forking = withLog(new Command('fork'))
    .description('set a log aside, and let the next writer begin one that names it as its parent')
    .action(async (dir: string | undefined, place: LogPlace) => fork(await logOf(dir, place.policy), io))

  const publishing = withLog(new Command('tiles'))
    .description('write the tree of a log as tiles, which clients of transparency logs read')
    .requiredOption(
      '--out <dir>',
      'the directory that has the tiles and the checkpoint, to be served as it is',
    )
    .option('--entries', 'also write the records themselves, which readers of the directory then see')
    .action(
      async (
        dir: string | undefined,
        { policy, ...options }: LogPlace & { out: string; entries?: boolean },
      ) => tiles(await logOf(dir, policy), options, io),
    )

  const witnessing = withPlugin(new Command('witness'))
    .description('run a witness, which cosigns checkpoints of logs that were only appended to')
    .requiredOption('--dir <dir>', 'the directory of its state, on a local disk')
    .requiredOption('--key <file>', 'its signing key')
    .option('--port <n>', 'the port it listens on, 0 for a free one', portOf, DEFAULT_WITNESS_PORT)
    .option('--host <address>', 'the address it listens on', '127.0.0.1')
    .option('--name <name>', 'its name in cosignatures; default svc-witness.invalid/ and its key id')
    .option('--logs <file>', 'verifier keys of the logs, as vkey prints them; default DIR/logs')
    .action((options: WitnessArguments) => runWitness(options, io))

  return [
    withManual(fetching, {
      example: 'https://audit.example.com restored --keys keys.txt',
      verdicts: ['restored as a whole', 'objects are missing or changed'],
    }),
    withManual(publishing, { example: '.svc/audit --out tiles' }),
    withManual(resuming, { example: 'restored' }),
    withManual(forking, { example: '.svc/audit' }),
    withManual(witnessing, { example: '--dir witness --key witness.key' }),
  ]
}

async function resume(dir: string, io: CliIo): Promise<void> {
  const logId = await resumeLog(dir)
  await io.out(`log ${logId} continues in ${dir}; no copy of it may be continued elsewhere\n`)
}

async function fork(dir: string, io: CliIo): Promise<void> {
  const { folder, parent } = await forkLog(dir)
  await io.out(
    `${dir}/${folder} holds ${parent.origin} with ${parent.size} leaves; the next writer begins a log that names it\n`,
  )
}

/** `svc audit show --trace`: the calls of one trace as a tree. */
export async function showTrace(dirs: readonly string[], traceId: string, io: CliIo): Promise<void> {
  const roots = await traceTree(dirs, traceId, badLines(io))
  if (roots.length === 0) throw new AuditError('read_failed', `there is no record of the trace ${traceId}`)
  const isOneLog = dirs.length === 1
  for (const root of roots) {
    await io.out(lineOf(root, isOneLog))
    for (const line of branches(root.children, '', isOneLog)) await io.out(line)
  }
}

function* branches(nodes: readonly TraceNode[], indent: string, isOneLog: boolean): Generator<string> {
  for (const [i, node] of nodes.entries()) {
    const isLast = i === nodes.length - 1
    yield `${indent}${isLast ? '└─ ' : '├─ '}${lineOf(node, isOneLog)}`
    yield* branches(node.children, `${indent}${isLast ? '   ' : '│  '}`, isOneLog)
  }
}

function lineOf({ record, dir, unverified }: TraceNode, isOneLog: boolean): string {
  const { server, tool, policy, status, latency_ms, tenant, ts } = record
  const parts = [
    `${server}/${tool}`,
    policy.decision,
    status,
    ...(unverified === undefined ? [] : [unverified.toUpperCase()]),
    ...reasonsOf(record),
    `${formatMilliseconds(latency_ms)} ms`,
    ts,
    tenant,
    ...(isOneLog ? [] : [`[${basename(dir)}]`]),
  ]
  return `${parts.map(visibleInLine).join('  ')}\n`
}

/** `svc audit witness`: runs a witness until SIGTERM or SIGINT. */
export interface WitnessArguments {
  readonly dir: string
  readonly key: string
  readonly port: number
  readonly host: string
  readonly name?: string
  readonly logs?: string
  readonly plugin?: string
}

const NAME_DIGITS = 16

export async function runWitness(options: WitnessArguments, io: CliIo): Promise<void> {
  const { dir, key, port, host, logs = join(dir, 'logs') } = options
  const signer = await signerIn(key, options.plugin)
  const name = options.name ?? defaultName(signer.keyId)
  const report = (message: string) => io.err(`svc-sdk audit witness: ${visibleInLine(message)}\n`)
  const witness = await startWitness({
    dir,
    logs,
    name,
    signer,
    port,
    host,
    onFork: (origin, why) => report(`${origin}: a fork, ${why}`),
    onError: (error) => report(error.message),
  })
  const ended = new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  await io.out(`key ${witness.vkey}\nlistening on ${witness.url}\n`)
  await ended
  await witness.close()
}

function defaultName(keyId: string): string {
  return `svc-witness.invalid/${keyId.slice(keyId.indexOf(':') + 1).slice(0, NAME_DIGITS)}`
}
