// `npm run bench:quick`: the main ratios beside recorded ones, in under a minute, to run before and after a change.
// Every ratio compares rounds of this run, so the machine's speed cancels out. It fails for one far below the record.
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { appendRatio } from './audit.js'
import { commandRatio, policyRatio } from './cold-start.js'
import { gatewayRatio } from './gateway/comparison.js'
import { importRatio } from './import-time.js'
import { jsonRatio } from './json.js'
import { machineLine } from './measure/machine.js'
import { print, table } from './measure/report.js'

/** A busy machine halves a ratio at times; a regression that matters takes more. */
const MIN_SHARE = 0.5

/** The ratios: higher is better in all of them. */
const measures: Readonly<Record<string, () => Promise<number>>> = {
  'CPU of a bare relay / of the gateway, a call': () => gatewayRatio(tmpdir()),
  'durable appends / bare signatures, a second': () => appendRatio(tmpdir()),
  'empty process / process that imports svc-sdk/audit': importRatio,
  'empty process / svc --help': () => commandRatio(['--help']),
  'empty process / svc policy check': () => policyRatio(['policy', 'check']),
  'empty process / svc gateway until it listens': () => policyRatio(['gateway']),
  'CPU of a MiB of ordinary JSON / of hostile JSON': jsonRatio,
}

print(machineLine())
const recorded: Record<string, number> = JSON.parse(
  await readFile(new URL('../recorded.json', import.meta.url), 'utf8'),
)
const rows = [['ratio', 'now', 'recorded', '']]
for (const [name, measure] of Object.entries(measures)) {
  const now = await measure()
  const record = recorded[name]
  if (record === undefined) throw new Error(`bench/recorded.json has no "${name}"`)
  const isLow = now < MIN_SHARE * record
  if (isLow) process.exitCode = 1
  rows.push([name, now.toFixed(2), record.toFixed(2), isLow ? `under ${MIN_SHARE} of the record` : ''])
}
table(rows)
