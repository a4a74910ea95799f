import { spawn } from 'node:child_process'
import { expect } from 'chai'
import { PrintingProcess } from './printing-process.js'

const printing = (...args: string[]) =>
  new PrintingProcess(spawn('printf', args, { stdio: ['ignore', 'pipe', 'inherit'] }))

describe('a process whose output a test waits for', () => {
  it('has all that it printed, also while nothing waited', async () => {
    await using child = printing('one\\ntwo\\n')
    expect(await child.exit).to.equal(0)
    expect(await child.prints(/^(one)$/m)).to.equal('one')
    expect(await child.prints(/^(two)$/m)).to.equal('two')
  })

  it('fails the wait for what it did not print until it ended', async () => {
    await using child = printing('one')
    const error = await child.prints(/two/).catch((reason: Error) => reason)
    expect(String(error)).to.equal('Error: it ended before /two/: one')
  })
})
