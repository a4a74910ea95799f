// Folders of tests, which are removed with what is in them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A directory on the disk of the checkout, as temporary files may lie in memory, of which `svc doctor` warns. */
export const onDisk: string = fileURLToPath(new URL('..', import.meta.url))

/** A folder to be declared with `using`. */
export class TemporaryDir implements Disposable {
  readonly path: string

  constructor(parent: string = tmpdir()) {
    this.path = mkdtempSync(join(parent, 'svc-test-'))
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** A fresh folder for each test of the calling suite. */
export function temporaryDir(): { readonly path: string } {
  let dir: TemporaryDir
  beforeEach(() => {
    dir = new TemporaryDir()
  })
  afterEach(() => dir[Symbol.dispose]())
  return {
    get path() {
      return dir.path
    },
  }
}
