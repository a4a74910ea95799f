// The compiled code that Node keeps for the next start is code that this user runs.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { runtimes } from '../../support/runtimes.js'
import { svc } from '../../support/svc.js'
import { temporaryDir } from '../../support/temporary-dir.js'

/** Where the cache is by the variables, or undefined if there is none. */
const cases: Readonly<Record<string, { variables: Readonly<Record<string, string>>; place?: string }>> = {
  'the home directory': { variables: { HOME: 'home' }, place: 'home/.cache/svc-sdk' },
  'a directory for caches': {
    variables: { HOME: 'home', XDG_CACHE_HOME: 'caches' },
    place: 'caches/svc-sdk',
  },
  'no directory of the user': { variables: {} },
}

for (const { version, node } of runtimes()) {
  describe(`the compile cache of the command on Node ${version}`, () => {
    const dir = temporaryDir()

    for (const [what, { variables, place }] of Object.entries(cases)) {
      it(`is never in the directory that users share, with ${what}`, () => {
        const shared = join(dir.path, 'shared')
        mkdirSync(shared)
        const named = Object.entries(variables).map(([name, folder]) => [name, join(dir.path, folder)])
        execFileSync(node, [svc, '--version'], { env: { TMPDIR: shared, ...Object.fromEntries(named) } })
        expect(readdirSync(shared)).to.deep.equal([])
        const kept = readdirSync(dir.path, { recursive: true, encoding: 'utf8' }).length
        if (place === undefined) expect(kept).to.equal(1)
        else expect(existsSync(join(dir.path, place))).to.equal(true)
      })
    }

    it('is written by the first start, and a damaged one stops none', () => {
      const run = (): string =>
        execFileSync(node, [svc, '--version'], { env: { HOME: dir.path }, encoding: 'utf8' })
      const kept = join(dir.path, '.cache', 'svc-sdk')
      const files = (): Map<string, number> => {
        const names = readdirSync(kept, { recursive: true, encoding: 'utf8' }).map((name) => join(kept, name))
        return new Map(
          names.filter((name) => statSync(name).isFile()).map((name) => [name, statSync(name).mtimeMs]),
        )
      }
      const printed = run()
      const written = files()
      expect(written).not.to.have.length(0)
      run()
      expect(files()).to.deep.equal(written)
      for (const name of written.keys()) writeFileSync(name, 'damaged')
      expect(run()).to.equal(printed)
    })

    it('is not in a directory that others may write to', () => {
      const kept = join(dir.path, '.cache', 'svc-sdk')
      mkdirSync(kept, { recursive: true })
      chmodSync(kept, 0o777)
      execFileSync(node, [svc, '--version'], { env: { HOME: dir.path } })
      expect(readdirSync(kept)).to.deep.equal([])
    })

    it('is made for its user alone, whatever the mask of the process is', () => {
      execFileSync('/bin/sh', ['-c', 'umask 0; exec "$0" "$1" --version', node, svc], {
        env: { HOME: dir.path },
      })
      expect(statSync(join(dir.path, '.cache', 'svc-sdk')).mode & 0o077).to.equal(0)
    })
  })
}
