import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { commandPath, manualOf } from 'svc-sdk/internal/cli/manual'
import { allCommands, argsOf, commandsPage, runSvc } from '../../support/command.js'

const expected = readFileSync(new URL('../../../../docs/reference/commands.md', import.meta.url), 'utf8')
const commands = await allCommands()

describe('the help', () => {
  it('of every command is the one that was read and accepted (`npm run docs` writes it)', async () => {
    expect(await commandsPage()).to.equal(expected)
  })

  for (const command of commands) {
    const path = commandPath(command)
    it(`of ${path} says in one line what it does, and fits on a terminal`, async () => {
      const { out, code } = await runSvc(...argsOf(command), '--help')
      expect(code).to.equal(0)
      const [usage, , description] = out.split('\n')
      expect(usage?.startsWith(`Usage: ${path} `), usage).to.equal(true)
      expect(description).to.equal(command.description())
      for (const line of out.split('\n')) expect(line.length, line).to.be.at.most(100)
    })

    if (command.commands.length > 0) continue
    it(`of ${path} has an example with the options that it needs`, () => {
      const example = manualOf(command)?.example
      if (example === undefined)
        throw new Error(`give the command a manual: withManual(command, { example })`)
      const [own = ''] = example.split(' -- ')
      const given = own.match(/--[\w-]+/g) ?? []
      const known = command.options.map(({ long }) => long)
      expect(known).to.include.members(given)
      const needed = command.options.filter(({ mandatory }) => mandatory).map(({ long }) => long)
      expect(given).to.include.members(needed)
    })
  }

  it('without arguments is printed as an error', async () => {
    const { out, err, code } = await runSvc()
    expect([out, code]).to.deep.equal(['', 2])
    expect(err).to.equal((await runSvc('--help')).out)
  })

  it('is what `svc help COMMAND` prints too', async () => {
    expect(await runSvc('help', 'doctor')).to.deep.equal(await runSvc('doctor', '--help'))
  })
})
