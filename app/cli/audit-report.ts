// `svc audit report`: a signed report on a range of days, as JSON and as a page.
import { visibleInLine } from '@svc/core/json'
import {
  auditReport,
  checkReport,
  readInput,
  readKeys,
  reportPage,
  signReport,
} from '@svc/plugin-audit/tools'
import { signerIn, writeText } from './audit-files.js'
import { logOf } from './audit-options.js'
import { VERDICT_EXIT, witnessPolicy } from './audit-verify.js'
import type { CliIo } from './io.js'
import { progressDisplay } from './progress.js'

const REFUTED = 1

export interface ReportArguments {
  from: string
  to: string
  signWith: string
  keys?: string
  against?: string
  witnessKeys?: string
  quorum?: number
  policy?: string
  out?: string
  json?: boolean
  quiet?: boolean
}

export async function report(given: string | undefined, options: ReportArguments, io: CliIo): Promise<void> {
  const {
    from,
    to,
    signWith,
    keys,
    against,
    witnessKeys,
    quorum,
    policy,
    json,
    quiet,
    out = `audit-report-${from}-${to}`,
  } = options
  const witnesses = await witnessPolicy(witnessKeys, quorum)
  const writer = policy === undefined ? undefined : await writerOf(policy)
  const dir = given ?? writer?.logDir ?? (await logOf(given, undefined))
  const progress = progressDisplay(io, 'audit report', quiet)
  const made = await auditReport(dir, {
    onProgress: progress.show,
    from,
    to,
    ...(keys === undefined ? {} : { keys: await readKeys(keys) }),
    ...(against === undefined ? {} : { against }),
    ...(witnesses === undefined ? {} : { witnesses }),
    ...(writer === undefined ? {} : { holds: writer.holds }),
  })
  progress.clear()
  const signer = await signerIn(signWith)
  const signed = await signReport(made, signer)
  await writeText(`${out}.json`, `${signed}\n`, 0o600)
  await writeText(`${out}.html`, reportPage(made, signed), 0o600)
  const { verdict } = made.verification
  io.exit(VERDICT_EXIT[verdict])
  await io.out(
    json === true
      ? `${JSON.stringify({ verdict, files: [`${out}.json`, `${out}.html`], keyId: signer.keyId }, null, 2)}\n`
      : `${verdictText(verdict)}; ${out}.json and ${out}.html, signed by ${signer.keyId}\n`,
  )
}

interface CheckReportArguments {
  keys: string
  json?: boolean
}

export async function checkReportFile(file: string, options: CheckReportArguments, io: CliIo): Promise<void> {
  const judged = checkReport((await readInput(file, 'report')).toString(), await readKeys(options.keys))
  io.exit(judged.valid ? VERDICT_EXIT[judged.verdict] : REFUTED)
  if (options.json === true) return io.out(`${JSON.stringify(judged, null, 2)}\n`)
  if (!judged.valid) {
    await io.out(`NOT A REPORT OF THESE KEYS: ${judged.reason}\n`)
    return
  }
  const { keyId, verdict, from, to, origin, selfVouched } = judged
  const vouched = selfVouched ? 'judged by the keys in the log itself: the log vouches for itself\n' : ''
  await io.out(
    `log ${visibleInLine(origin ?? 'without a journal')}\nfrom ${visibleInLine(from)} to ${visibleInLine(to)}\n${vouched}` +
      `the report is as ${keyId} signed it\n${verdictText(verdict)}\n`,
  )
}

function verdictText(verdict: keyof typeof VERDICT_EXIT): string {
  return verdict === 'not_intact' ? 'NOT INTACT' : verdict.replaceAll('_', ' ')
}

/** The gateway that writes the log; the log itself does not state its holds. */
async function writerOf(policy: string) {
  // Imported here, because it loads every plugin.
  const { gatewayOf } = await import('./policy-gateway.js')
  return gatewayOf(policy, process.env)
}
