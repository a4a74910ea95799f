// `svc audit`: verifying and reading the audit log.
import { AuditError, forkLog, resumeLog, SignerKeyError } from '@svc/plugin-audit/log'
import { Command, Option } from 'commander'
import { type FetchArguments, fetchUploaded } from './audit-fetch.js'
import {
  type CheckProofArguments,
  type ConsistencyArguments,
  checkProofFile,
  consistency,
  type ProveArguments,
  prove,
  vkey,
} from './audit-proofs.js'
import { checkReportFile, type ReportArguments, report } from './audit-report.js'
import { formats, type ShowOptions, show } from './audit-show.js'
import { stats } from './audit-stats.js'
import { showTrace } from './audit-trace.js'
import { type VerifyArguments, verify } from './audit-verify.js'
import { runWitness, type WitnessArguments } from './audit-witness.js'
import { commandGuard, exitUndecided, portOf, UNDECIDED, wholeNumber } from './command-guard.js'
import { type CliIo, processIo } from './io.js'

const DEFAULT_WITNESS_PORT = 8791
const KEYS =
  'public keys (ed25519:<base64>, one a line, with the leaves that each may sign) or a signing key file'

export function auditCommand(io: CliIo = processIo()): Command {
  const guarded = commandGuard(io, 'audit', [AuditError, SignerKeyError])
  const audit = new Command('audit').description('verify and read the audit log')

  exitUndecided(addWitnessOptions(audit.command('verify <dir>')))
    .description('check every record; exit 0 intact, 1 not intact, 2 cannot be judged')
    .option('--keys <file>', KEYS)
    .option(
      '--against <checkpoint>',
      'a file with a checkpoint kept elsewhere, to which the log must still lead',
    )
    .option('--origin <origin>', 'the origin that the log must have')
    .option('--write-keys <file>', 'if it is intact, write its keys there with the leaves that each may sign')
    .option('--strict', 'check every signature, even those that others cover')
    .option('--fast', 'check the journal, the tree and its roots, not the signature of each record')
    .option('--agents', 'compare the files of agents with the daily logs')
    .option('--allow-unsealed', 'accept a log without a journal, of a signer without a public key')
    .option('--json', 'print the report as JSON')
    .action((dir: string, options: VerifyArguments) =>
      guarded('verify', () => verify(dir, options, io), UNDECIDED),
    )

  addFilterOptions(audit.command('prove <dir>'))
    .description(
      'write the proof that one record, or all that match, are in the log; it can be checked without the log',
    )
    .option('--all', 'prove every record that matches, in one file')
    .option('--out <file>', 'write the proof to this file instead of standard output')
    .action((dir: string, options: ProveArguments) => guarded('prove', () => prove(dir, options, io)))

  exitUndecided(audit.command('check-proof <file>'))
    .description('check a proof; exit 0 if its records were sealed by one of the keys')
    .requiredOption('--keys <file>', KEYS)
    .option('--json', 'print the result as JSON')
    .action((file: string, options: CheckProofArguments) =>
      guarded('check-proof', () => checkProofFile(file, options, io), UNDECIDED),
    )

  audit
    .command('consistency <old> <new>')
    .description('check that the log was only appended to between two checkpoints; exit 0 if it was')
    .requiredOption('--dir <dir>', 'the log, whose tree gives the proof')
    .requiredOption('--keys <file>', 'public keys (ed25519:<base64>, one a line) or a signing key file')
    .option('--json', 'print the result with the proof as JSON')
    .action((older: string, newer: string, options: ConsistencyArguments) =>
      guarded('consistency', () => consistency(older, newer, options, io)),
    )

  audit
    .command('vkey <dir>')
    .description('print the verifier keys of the log (c2sp.org/signed-note), for other tools')
    .action((dir: string) => guarded('vkey', () => vkey(dir, io)))

  audit
    .command('resume <dir>')
    .description('continue a log that was copied, restored or moved; only if the original is gone')
    .action((dir: string) => guarded('resume', () => resume(dir, io)))

  audit
    .command('fork <dir>')
    .description('set a log aside, and let the next writer begin one that names it as its parent')
    .action((dir: string) => guarded('fork', () => fork(dir, io)))

  audit
    .command('witness')
    .description('run a witness, which cosigns checkpoints of logs that were only appended to')
    .requiredOption('--dir <dir>', 'the directory of its state, on a local disk')
    .requiredOption('--key <file>', 'its signing key')
    .option('--port <n>', 'the port it listens on, 0 for a free one', portOf, DEFAULT_WITNESS_PORT)
    .option('--host <address>', 'the address it listens on', '127.0.0.1')
    .option('--name <name>', 'its name in cosignatures; default svc-witness.invalid/ and its key id')
    .option('--logs <file>', 'verifier keys of the logs, as vkey prints them; default DIR/logs')
    .action((options: WitnessArguments) => guarded('witness', () => runWitness(options, io)))

  audit
    .command('fetch <source> <dir>')
    .description('restore an uploaded log from a control plane (URL) or a bucket (s3://BUCKET[/PREFIX])')
    .option('--log <id>', 'the id of the log, if the client has several')
    .option('--keys <file>', 'the public keys of the log, with which its beginning is checked')
    .option('--key-file <file>', 'a file with the API key of the control plane (default: SVC_AUDIT_KEY)')
    .option('--tenant <tenant>', 'the owner of the upload: its tenant')
    .option('--environment <name>', 'its environment')
    .option('--client-name <name>', 'its client')
    .option('--client-version <version>', 'the version of the client')
    .action((source: string, dir: string, options: FetchArguments) =>
      guarded('fetch', () => fetchUploaded(source, dir, options, io)),
    )

  addWitnessOptions(audit.command('report <dir>'))
    .description('write a signed report on a range of days, as JSON and as a page; exit codes as verify')
    .requiredOption('--from <day>', 'the first day, YYYY-MM-DD in UTC')
    .requiredOption('--to <day>', 'the last day')
    .requiredOption('--sign-with <file>', 'the signing key of the reporter')
    .option('--keys <file>', 'the public keys that verification trusts')
    .option('--against <checkpoint>', 'a file with a checkpoint kept elsewhere')
    .option('--policy <file>', "the writer's policy, whose holds are reported")
    .option('--out <name>', 'names of the files, without .json and .html')
    .action((dir: string, options: ReportArguments) =>
      guarded('report', () => report(dir, options, io), UNDECIDED),
    )

  exitUndecided(audit.command('check-report <file>'))
    .description('check a report; exit 0 if one of the keys signed that the log is intact, else 1')
    .requiredOption('--keys <file>', 'public keys (ed25519:<base64>, one a line) or a signing key file')
    .action((file: string, options: { keys: string }) =>
      guarded('check-report', () => checkReportFile(file, options, io), UNDECIDED),
    )

  addFilterOptions(audit.command('show <dirs...>'))
    .description('print records')
    .option('--trace <id>', 'print the calls of this trace as a tree, of all the logs that are named')
    .option('--limit <n>', 'at most this number of records, from the first on', wholeNumber(1))
    .option('--last <n>', 'at most this number of records, the last ones', wholeNumber(1))
    .addOption(
      new Option('--format <format>', 'what is printed for each record').choices(formats).default('ndjson'),
    )
    .option('--follow', 'print records as they are appended, until interrupted')
    .action((dirs: string[], { trace, ...options }: ShowOptions & { trace?: string }) =>
      guarded('show', () => (trace === undefined ? showOne(dirs, options, io) : showTrace(dirs, trace, io))),
    )

  addFilterOptions(audit.command('stats <dir>'))
    .description('calls, denials by reason, latency percentiles per tool')
    .option('--json', 'print the statistics as JSON')
    .action((dir: string, options: ShowOptions & { json?: boolean }) =>
      guarded('stats', () => stats(dir, options, io)),
    )
  return audit
}

async function showOne(
  [dir = '', ...more]: readonly string[],
  options: ShowOptions,
  io: CliIo,
): Promise<void> {
  if (more.length > 0) throw new AuditError('read_failed', 'several logs are read only with --trace')
  await show(dir, options, io)
}

function addFilterOptions(command: Command): Command {
  return command
    .option('--since <time>', 'from this day or ISO 8601 instant on')
    .option('--until <time>', 'before this day or ISO 8601 instant')
    .option('--tenant <tenant>', 'only this tenant')
    .option('--tool <tool>', '<name>@<version>, or a name for all versions')
    .option('--server <server>', '<name>@<version>, or a name for all versions')
    .addOption(new Option('--decision <decision>', 'only this decision').choices(['allow', 'deny']))
    .addOption(new Option('--status <status>', 'only this outcome').choices(['ok', 'error']))
    .option('--trace-id <id>', 'only this trace')
    .option('--span-id <id>', 'only this span')
    .option('--agent <id>', 'only this agent reference or node id')
    .option('--principal <id>', 'only this user, user id or client id')
    .option('--error <code>', 'only this error code')
    .option('--escalation <id>', 'only this escalation')
    .option('--policy <sha256>', 'only records judged by this policy: its hash, or the first digits')
}

function addWitnessOptions(command: Command): Command {
  return command
    .option(
      '--witness-keys <file>',
      'verifier keys of witnesses that must have cosigned the newest checkpoint',
    )
    .option('--quorum <n>', 'how many of them, instead of all', wholeNumber(1))
}

async function resume(dir: string, io: CliIo): Promise<void> {
  const logId = resumeLog(dir)
  await io.out(`log ${logId} continues in ${dir}; no copy of it may be continued elsewhere\n`)
}

async function fork(dir: string, io: CliIo): Promise<void> {
  const { folder, parent } = forkLog(dir)
  await io.out(
    `${dir}/${folder} holds ${parent.origin} with ${parent.size} leaves; the next writer begins a log that names it\n`,
  )
}
