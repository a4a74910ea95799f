// `svc policy test`: judges the calls of test files by the stages of their policy, with nothing outside the process.
import { describeDiagnostic } from '@svc/core/policy'
import { Command } from 'commander'
import { writeText } from './audit-files.js'
import type { CliIo, Environment } from './io.js'
import { NO_VERDICT, withManual } from './manual.js'
import { wholeNumber } from './option-values.js'
import { loadPolicyFile } from './policy-file.js'

interface TestOptions {
  readonly policy?: string
  readonly json?: true
  readonly junit?: string
  readonly minCoverage?: number
}

export function policyTestCommand(io: CliIo, env: Environment): Command {
  const command = new Command('test')
    .description('judge the calls of test files by a policy; nothing is sent, counted or written')
    .argument('<file...>', 'the test files; NAME.test.yaml tests NAME.yaml beside it')
    .option('--policy <file>', 'the policy, in place of the one that a test file names')
    .option('--json', 'print the results as JSON')
    .option('--junit <file>', 'write the results as JUnit XML too')
    .option(
      '--min-coverage <percent>',
      'fail if fewer rules, plans and patterns applied',
      wholeNumber(0, 100),
    )
    .action((files: string[], options: TestOptions) => test(files, options, io, env))
  return withManual(command, {
    example: 'svc.test.yaml',
    verdicts: ['every case passed', 'a case failed, or too few rules applied'],
  })
}

async function test(
  files: readonly string[],
  options: TestOptions,
  io: CliIo,
  env: Environment,
): Promise<void> {
  const { runTests } = await import('../policy-tools/test/run-tests.js')
  const { reportJson, reportJunit, reportLines, totals } = await import('../policy-tools/test/report.js')
  const { results, mistakes } = await runTests(files, {
    env,
    policy: options.policy,
    async load(file) {
      const result = await loadPolicyFile(file, env, false)
      return result.ok ? { policy: result.policy } : { mistakes: result.mistakes }
    },
  })
  if (mistakes.length > 0) {
    for (const mistake of mistakes) io.err(`${describeDiagnostic(mistake)}\n`)
    io.exit(NO_VERDICT)
    return
  }
  if (options.json === true) await io.out(`${JSON.stringify(reportJson(results), null, 2)}\n`)
  else for (const line of reportLines(results)) await io.out(`${line}\n`)
  let isOk = results.every((tests) => totals(tests.files).failed === 0)
  for (const { policy, percent } of results) {
    if (options.minCoverage === undefined || percent >= options.minCoverage) continue
    io.err(
      `${policy}: ${percent} % of its rules, plans and patterns applied; --min-coverage is ${options.minCoverage} %\n`,
    )
    isOk = false
  }
  if (!isOk) io.exit(1)
  if (options.junit === undefined) return
  await writeText(options.junit, reportJunit(results))
}
