// `svc audit report`: a signed report on a range of days, as JSON and as a page.
import { isJsonObject, visibleInLine } from '@svc/core/json'
import { AuditError, type LegalHold } from '@svc/plugin-audit/log'
import {
  auditReport,
  checkReport,
  readInput,
  readKeys,
  reportPage,
  signReport,
} from '@svc/plugin-audit/tools'
import { signerIn, writeText } from './audit-files.js'
import { VERDICT_EXIT, witnessPolicy } from './audit-verify.js'
import type { CliIo } from './io.js'

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
}

export async function report(dir: string, options: ReportArguments, io: CliIo): Promise<void> {
  const {
    from,
    to,
    signWith,
    keys,
    against,
    witnessKeys,
    quorum,
    policy,
    out = `audit-report-${from}-${to}`,
  } = options
  const witnesses = await witnessPolicy(witnessKeys, quorum)
  const holds = policy === undefined ? undefined : await holdsOf(policy)
  const made = await auditReport(dir, {
    from,
    to,
    ...(keys === undefined ? {} : { keys: await readKeys(keys) }),
    ...(against === undefined ? {} : { against }),
    ...(witnesses === undefined ? {} : { witnesses }),
    ...(holds === undefined ? {} : { holds }),
  })
  const signer = signerIn(signWith)
  const signed = await signReport(made, signer)
  await writeText(`${out}.json`, `${signed}\n`, 0o600)
  await writeText(`${out}.html`, reportPage(made, signed), 0o600)
  const { verdict } = made.verification
  await io.out(`${verdictText(verdict)}; ${out}.json and ${out}.html, signed by ${signer.keyId}\n`)
  io.exit(VERDICT_EXIT[verdict])
}

export async function checkReportFile(file: string, options: { keys: string }, io: CliIo): Promise<void> {
  const judged = checkReport((await readInput(file, 'report')).toString(), await readKeys(options.keys))
  if (!judged.valid) {
    io.exit(REFUTED)
    await io.out(`NOT A REPORT OF THESE KEYS: ${judged.reason}\n`)
    return
  }
  const { keyId, verdict, from, to, origin, selfVouched } = judged
  io.exit(VERDICT_EXIT[verdict])
  const vouched = selfVouched ? 'judged by the keys in the log itself: the log vouches for itself\n' : ''
  await io.out(
    `log ${visibleInLine(origin ?? 'without a journal')}\nfrom ${visibleInLine(from)} to ${visibleInLine(to)}\n${vouched}` +
      `the report is as ${keyId} signed it\n${verdictText(verdict)}\n`,
  )
}

function verdictText(verdict: keyof typeof VERDICT_EXIT): string {
  return verdict === 'not_intact' ? 'NOT INTACT' : verdict.replaceAll('_', ' ')
}

/** The holds of the writer's policy, which the log itself does not state. */
async function holdsOf(file: string): Promise<readonly LegalHold[]> {
  // Imported here, because it loads every plugin.
  const { loadPolicyFile } = await import('./policy-file.js')
  const { auditSchema } = await import('@svc/plugin-audit')
  const result = await loadPolicyFile(file, process.env, false)
  if (!result.ok)
    throw new AuditError('read_failed', `${file} is not a valid policy: svc policy check ${file}`)
  const section = result.policy.sections.get('audit')
  return auditSchema.shape.hold.parse(isJsonObject(section) ? section['hold'] : undefined)
}
