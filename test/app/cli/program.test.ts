import { execFileSync } from 'node:child_process'
import { expect } from 'chai'
import { runSvc } from '../../support/command.js'
import { listModules } from '../../support/loaded-modules.js'
import { svc } from '../../support/svc.js'

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
