// Draws docs/flame.svg: the CPU time of a call in the gateway, by stack. Run by `node bench/dist/flame.js`.
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { Scene } from './gateway/scene.js'
import { profileCpu, sum } from './profile/call-profile.js'
import { flameGraph } from './profile/flame-graph.js'
import { OTHER_THREADS } from './profile/parts.js'

const CALLS = 30_000

const scene = await Scene.set(tmpdir())
try {
  const { tree, parts } = await profileCpu(scene, await scene.subject('gateway'), CALLS)
  const micros = sum(Object.values({ ...parts, [OTHER_THREADS]: 0 }))
  await writeFile(new URL('../../docs/flame.svg', import.meta.url), flameGraph(tree, micros))
} finally {
  await scene.end()
}
