// `svc policy replay`: what a new policy would have decided about recorded calls.
import { defined } from '@svc/core/json'
import { describeDiagnostic } from '@svc/core/policy'
import { Command, Option } from 'commander'
import type { Policy } from '../policy/config.js'
import { KEYS_HELP } from './audit-options.js'
import type { CliIo, Environment } from './io.js'
import { NO_VERDICT, withManual } from './manual.js'
import { collectValue } from './option-values.js'
import { ownCommand } from './own-command.js'
import { baseDirOf, loadPolicyFile } from './policy-file.js'
import { progressDisplay } from './progress.js'

export interface LogOptions {
  readonly log: readonly string[]
  readonly keys?: string
  readonly head?: string
  readonly witnessKeys?: string
  readonly from?: string
  readonly to?: string
  readonly fast?: true
  readonly unverified?: true
}

interface ReplayOptions extends LogOptions {
  readonly against?: string
  readonly list?: true
  readonly json?: true
  readonly markdown?: true
}

/** The options of commands that read recorded calls. */
export function withRecordedCalls(command: Command): Command {
  return command
    .addOption(
      new Option('--log <dir>', 'a log; may be repeated, for several gateways')
        .argParser(collectValue)
        .makeOptionMandatory(),
    )
    .option('--keys <file>', KEYS_HELP)
    .option('--head <file>', 'a checkpoint of the log that was kept elsewhere, and that it must match')
    .option(
      '--witness-keys <file>',
      'verifier keys of witnesses that must have cosigned the newest checkpoint',
    )
    .option('--from <time>', 'calls from this day or ISO 8601 instant on')
    .option('--to <time>', 'calls before this day or ISO 8601 instant')
    .option('--fast', 'check the journal and the tree, not each signature')
    .option('--unverified', 'judge a log that is not verified')
}

export function policyReplayCommand(io: CliIo, env: Environment): Command {
  const command = withRecordedCalls(
    new Command('replay')
      .description('report what a new policy would have decided about recorded calls')
      .argument('<new>', 'the new policy'),
  )
    .option('--against <old>', 'the policy that was in force; default: the one kept beside the log')
    .option('--list', 'list each call whose decision changes, or may')
    .addOption(new Option('--json', 'print the report as JSON').conflicts('markdown'))
    .option('--markdown', 'print the report as Markdown, for a pull request')
    .action((file: string, options: ReplayOptions) => replay(file, options, io, env))
  return withManual(command, {
    example: 'new.yaml --log audit --keys audit.keys',
    verdicts: ['every call that was allowed is allowed', 'calls that were allowed are not, or may not be'],
  })
}

async function replay(file: string, options: ReplayOptions, io: CliIo, env: Environment): Promise<void> {
  const policy = await loadOrReport({ file }, io, env)
  const { against } = options
  const given = against === undefined ? undefined : await loadOrReport({ file: against }, io, env)
  if (policy === undefined || (against !== undefined && given === undefined)) {
    io.exit(NO_VERDICT)
    return
  }
  const logs = await verifiedLogs(options, io)
  if (logs === undefined) {
    io.exit(NO_VERDICT)
    return
  }
  const { PolicyJudge } = await import('../policy-tools/replay/policy-judge.js')
  const { Replay } = await import('../policy-tools/replay/replay.js')
  const { keptPolicyIn, recordsOf } = await import('../policy-tools/replay/recorded-logs.js')
  const { callLine, replayJson, replayMarkdown, replayText } = await import(
    '../policy-tools/replay/report.js'
  )
  const filter = filterOf(options)
  const began = performance.now()
  const judges: AsyncDisposable[] = []
  const judgeOf = async (of: Policy, base: string) => {
    const judge = await PolicyJudge.start(of, { baseDir: baseDirOf(base), env })
    judges.push(judge)
    return judge
  }
  const listed: unknown[] = []
  const now = await judgeOf(policy, file)
  const judging = new Replay({
    now,
    async inForce(sha256) {
      if (given !== undefined && given.sha256 === sha256) return judgeOf(given, against ?? file)
      const text = keptPolicyIn(options.log, sha256)
      const kept = text === undefined ? undefined : await loadOrReport({ file, text, sha256 }, io, env)
      return kept && judgeOf(kept, file)
    },
    ...(options.list === true
      ? { onChange: (call) => void listed.push(options.json === true ? call : callLine(call)) }
      : {}),
  })
  for await (const record of recordsOf(options.log, filter)) await judging.add(record)
  const result = await judging.finish()
  for (const judge of judges) await judge[Symbol.asyncDispose]()
  const seconds = (performance.now() - began) / 1000
  const old = given?.sha256 ?? result.latestPolicy ?? null
  const report = {
    logs,
    now: policy.sha256,
    old,
    result,
    notes: now.judging.unasked.map((name) => `${name} is not run: what it decides is unknown`),
    seconds,
  }
  if (options.json === true) {
    const json = { ...replayJson(report), ...(options.list === true ? { list: listed } : {}) }
    await io.out(`${JSON.stringify(json, null, 2)}\n`)
  } else {
    for (const line of listed) await io.out(`${String(line)}\n`)
    await io.out(options.markdown === true ? replayMarkdown(report) : replayText(report))
  }
  if (result.judged === 0) {
    io.err('no call was judged: the logs have none in this time\n')
    io.exit(NO_VERDICT)
  } else if (result.hasLosses) io.exit(1)
}

function filterOf({ from, to }: LogOptions) {
  return { ...defined({ since: from, until: to }) }
}

interface PolicySource {
  readonly file: string
  /** In place of the content of the file, which gives relative paths their base. */
  readonly text?: string
  readonly sha256?: string
}

/** Undefined for a policy with mistakes, which are printed. */
export async function loadOrReport(
  { file, text, sha256 }: PolicySource,
  io: CliIo,
  env: Environment,
): Promise<Policy | undefined> {
  const result = await loadPolicyFile(file, env, false, text === undefined ? {} : { text })
  if (result.ok) return result.policy
  const of = sha256 === undefined ? '' : `the policy ${sha256.slice(0, 8)}… that was in force does not load: `
  for (const mistake of result.mistakes) io.err(`${of}${describeDiagnostic(mistake)}\n`)
  return undefined
}

/** A line about the verification of each log; undefined if one is not intact, so that nothing is judged. */
export async function verifiedLogs(options: LogOptions, io: CliIo) {
  const { log: dirs, unverified, head } = options
  if (head !== undefined && dirs.length > 1)
    throw new Error('--head is for one log; verify each log by itself')
  if (unverified === true) return dirs.map((dir) => ({ dir, verification: 'NOT VERIFIED (--unverified)' }))
  const { describeVerification, verifyLogs } = await import('../policy-tools/replay/recorded-logs.js')
  const progress = progressDisplay(io, 'policy replay')
  const reports = await verifyLogs(dirs, { ...options, onProgress: progress.show })
  progress.clear()
  const bad = dirs.filter((_, at) => reports[at]?.verdict !== 'intact')
  if (bad.length === 0) {
    return reports.map((report, at) => ({ dir: dirs[at] ?? '', verification: describeVerification(report) }))
  }
  for (const [at, report] of reports.entries()) {
    if (report.verdict !== 'intact') io.err(`${dirs[at] ?? ''}: ${describeVerification(report)}\n`)
  }
  io.err(
    `nothing was judged (${ownCommand()} audit verify says what is wrong; --unverified judges what is there)\n`,
  )
  return undefined
}
