// Mocha's dots for CI, where a test that fails is tried once more. Names each test that passed only then: an error to mend.
import Mocha from 'mocha'

const { EVENT_RUN_END, EVENT_TEST_FAIL, EVENT_TEST_RETRY } = Mocha.Runner.constants

// biome-ignore lint/style/noDefaultExport: mocha takes the default export of a reporter.
export default class CiReporter extends Mocha.reporters.Dot {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options)
    const unstable = new Map<string, string>()
    runner.on(EVENT_TEST_RETRY, (test, error) => unstable.set(test.fullTitle(), String(error.stack)))
    runner.on(EVENT_TEST_FAIL, (test) => unstable.delete(test.fullTitle()))
    runner.once(EVENT_RUN_END, () => {
      process.stdout.write(`  ${unstable.size} unstable\n\n`)
      for (const [title, error] of unstable) {
        process.stdout.write(`  ${title}\n${error.replaceAll(/^/gm, '    ')}\n\n`)
      }
    })
  }
}
