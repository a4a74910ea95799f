import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { installRequired } from '../../../support/install-required.js'

describe('the LMDB store without the package lmdb', () => {
  let home: string
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-no-lmdb-'))
  })
  afterEach(() => rmSync(home, { recursive: true, force: true }))

  it('says what to install, and creates nothing', () => {
    installRequired(home, '@svc/core')
    const program =
      "import { LmdbStore } from '@svc/core/lmdb'; new LmdbStore({ dir: 'data', name: 'the quota store' })"
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: home,
      encoding: 'utf8',
    })
    expect(stderr).to.include(
      'Error: the quota store in data cannot be opened: ' +
        'the package lmdb is missing: npm install lmdb, or choose another adapter\n',
    )
    expect(existsSync(join(home, 'data'))).to.equal(false)
  })
})
