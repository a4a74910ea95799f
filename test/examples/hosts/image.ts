// Runs the instructions of a Dockerfile one by one: each stage is a scratch directory. What Docker adds, such as layers, other
// users' namespaces and the base image, is not there.
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Copy, DockerfileParser } from 'dockerfile-ast'
import { ScratchHost, user } from './host.js'

export class Image implements AsyncDisposable {
  readonly env: Record<string, string> = {}
  /** Of the last stage; JSON forms as words. */
  readonly settings = new Map<string, string>()
  readonly #stages: { readonly name: string; readonly host: ScratchHost }[] = []
  readonly #context: string
  #cwd = '/'

  private constructor(context: string) {
    this.#context = context
  }

  static async build(dockerfile: string, context: string): Promise<Image> {
    const image = new Image(context)
    for (const instruction of DockerfileParser.parse(dockerfile).getInstructions()) {
      const words = (instruction.getArgumentsContent() ?? '').replaceAll(/\\\n\s*/g, '')
      const flags = instruction instanceof Copy ? instruction.getFlags() : []
      const from = flags.find((flag) => flag.getName() === 'from')?.getValue() ?? undefined
      await image.#step(instruction.getKeyword(), words, from)
    }
    return image
  }

  get host(): ScratchHost {
    const last = this.#stages.at(-1)
    if (last === undefined) throw new Error('there is no FROM')
    return last.host
  }

  /** The words of a setting in JSON form. */
  words(name: string): string[] {
    const text = this.settings.get(name) ?? ''
    return JSON.parse(text.slice(text.indexOf('['))) as string[]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { host } of this.#stages) await host[Symbol.asyncDispose]()
  }

  async #step(keyword: string, text: string, from?: string): Promise<void> {
    switch (keyword) {
      case 'FROM': {
        this.#stages.push({ name: text.split(' AS ')[1] ?? '', host: await ScratchHost.start() })
        for (const path of ['/opt', '/etc', '/tmp', '/var/lib'])
          mkdirSync(this.host.path(path), { recursive: true })
        this.settings.clear()
        return
      }
      case 'WORKDIR':
        mkdirSync(this.host.path(text), { recursive: true })
        this.#cwd = text
        return
      case 'ENV': {
        const [name = '', value = ''] = text.split('=')
        this.env[name] = value
        return
      }
      case 'COPY':
        return this.#copy(text.split(' '), from)
      case 'RUN': {
        // The base image has the user `node`.
        const own = text.replace('node:node', `${user.uid ?? process.getuid?.()}`)
        await this.host.run(['sh', '-ec', own], {
          cwd: this.#cwd,
          env: { npm_config_prefer_offline: 'true' },
        })
        return
      }
      case 'VOLUME':
      case 'USER':
      case 'EXPOSE':
      case 'HEALTHCHECK':
      case 'ENTRYPOINT':
      case 'CMD':
        this.settings.set(keyword, text)
        return
      default:
        throw new Error(`the test does not know ${keyword}`)
    }
  }

  #copy([source = '', target = '']: readonly string[], from: string | undefined): void {
    const stage = this.#stages.find(({ name }) => name === from)
    const path = stage === undefined ? join(this.#context, source) : stage.host.path(source)
    cpSync(path, this.host.path(target), { recursive: true, verbatimSymlinks: true })
  }
}
