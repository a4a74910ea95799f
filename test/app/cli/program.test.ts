import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { runSvc } from '../../support/command.js'
import { listModules } from '../../support/loaded-modules.js'
import { svc } from '../../support/svc.js'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('the bundle of the program', () => {
  const dir = temporaryDir()

  it('has the modules that a policy with rules needs', () => {
    const run = (args: readonly string[], node: readonly string[] = []) =>
      execFileSync(process.execPath, [...node, svc, ...args], { encoding: 'utf8' })
    const file = join(dir.path, 'policy.yaml')
    const given = ['--preset', 'guard', '--target', 'http://127.0.0.1:9', '--dir', dir.path]
    writeFileSync(file, run(['gateway', ...given, '--print-policy']))
    const loaded = run(['policy', 'check', file], listModules(1)).split('\n')
    expect(loaded.filter((url) => /^file:.*(?:plugins|node_modules\/@svc)\//.test(url))).to.deep.equal([])
    expect(loaded.filter((url) => /^file:.*\/bundle\//.test(url))).not.to.have.length(0)
  })
})

describe('the help of the program', () => {
  it('lists each command with its arguments, as if all were loaded', async () => {
    expect(await runSvc('--help')).to.deep.equal(await runSvc('help'))
  })

  for (const option of ['--help', '--version']) {
    it(`needs few modules, none of them of a command, with ${option}`, () => {
      const printed = execFileSync(process.execPath, [...listModules(1), svc, option], { encoding: 'utf8' })
      const loaded = printed.split('\n').filter((line) => line.startsWith('file:'))
      expect(loaded.filter((url) => /zod|undici|policy|gateway/.test(url))).to.deep.equal([])
      expect(loaded.length).to.be.within(3, 50)
    })
  }
})
