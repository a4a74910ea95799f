// `npm run bench`: runs every benchmark and prints one report. Results are medians of several rounds (min–max); ratios
// compare rounds of the same run.
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { measureAppending } from './audit.js'
import { measureColdStart } from './cold-start.js'
import { compareGateway } from './gateway/comparison.js'
import { measureIdleness } from './idleness.js'
import { measureImportTime } from './import-time.js'
import { measureInProcess } from './in-process.js'
import { measureJson } from './json.js'
import { measureLists } from './lists.js'
import { fdatasyncTimes } from './measure/disk.js'
import { diskLine, machineLine } from './measure/machine.js'
import { recordRun } from './measure/recorded-run.js'
import { print } from './measure/report.js'
import { measureMemory } from './memory.js'
import { measurePolicy } from './policy.js'
import { measureProfile } from './profile.js'
import { measureRedis } from './redis.js'
import { measureReplay } from './replay.js'
import { measureRules } from './rules.js'
import { measureScale } from './scale.js'
import { measureSignals } from './signals.js'
import { measureStreams } from './streams.js'
import { measureTamperEvidence } from './tamper-evidence.js'
import { measureUpload } from './upload.js'
import { measureWorkers } from './workers.js'

/** The benchmarks: each prints its report, and returns its raw rounds. */
const measures: Readonly<Record<string, (disk: string, quick: boolean) => Promise<unknown>>> = {
  audit: measureAppending,
  tamper: measureTamperEvidence,
  upload: measureUpload,
  gateway: compareGateway,
  inprocess: measureInProcess,
  profile: measureProfile,
  policy: measurePolicy,
  rules: measureRules,
  signals: measureSignals,
  replay: measureReplay,
  cold: measureColdStart,
  import: measureImportTime,
  json: measureJson,
  lists: measureLists,
  memory: measureMemory,
  idle: measureIdleness,
  streams: measureStreams,
  redis: measureRedis,
  scale: measureScale,
  workers: measureWorkers,
}

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    dir: { type: 'string', default: tmpdir() },
    record: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const known = Object.keys(measures)
const chosen = values.only ?? known
const unknown = chosen.filter((name) => !known.includes(name))

if (values.help || unknown.length > 0) {
  if (unknown.length > 0) print(`no such measure: ${unknown.join(', ')}`)
  print(`npm run bench -- [--only ${known.join('|')}]… [--quick] [--dir DIRECTORY ON A DISK] [--record FILE]`)
  process.exitCode = unknown.length > 0 ? 1 : 0
} else {
  const disk = resolve(values.dir)
  await mkdir(disk, { recursive: true })
  const machine = machineLine()
  print(machine)
  const sync = await fdatasyncTimes(disk)
  print(
    `log on ${diskLine(disk)}; fdatasync of 1 KiB: p50 ${sync.p50.toFixed(3)} ms, p95 ${sync.p95.toFixed(3)} ms`,
  )
  const rounds: Record<string, unknown> = {}
  for (const name of chosen) rounds[name] = await measures[name]?.(disk, values.quick)
  if (values.record !== undefined) await recordRun(values.record, { machine, rounds })
}
