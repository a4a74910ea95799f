// The commands that the program prints start this program, also where npx would ask a registry for one of its name.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { ownCommand, ownProgram } from 'svc-sdk/internal/cli/own-command'

describe('the command that starts this program again', () => {
  let dir: string

  beforeEach(() => {
    dir = realpathSync(mkdtempSync(join(tmpdir(), 'svc own-')))
    mkdirSync(join(dir, 'node_modules', '.bin'), { recursive: true })
    mkdirSync(join(dir, 'project', 'below'), { recursive: true })
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  const install = (program: string) => symlinkSync(program, join(dir, 'node_modules', '.bin', 'svc-sdk'))

  it('is npx below a directory that has this installation', () => {
    install(ownProgram())
    expect(ownCommand(join(dir, 'project', 'below'))).to.equal('npx svc-sdk')
  })

  it('has the path where no directory upwards has one', () => {
    expect(ownCommand(join(dir, 'project'))).to.equal(`node ${ownProgram()}`)
  })

  it("has the path where another's program has the name", () => {
    const other = join(dir, 'other.js')
    writeFileSync(other, '')
    install(other)
    expect(ownCommand(dir)).to.equal(`node ${ownProgram()}`)
  })
})
