// Runs a WebAssembly program with the system interface WASI: `node wasi.mjs PROGRAM WORD...`, its files those of this folder.
import { readFile } from 'node:fs/promises';
import { argv, exit } from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { WASI } from 'node:wasi';

setFlagsFromString('--experimental-wasm-relaxed-simd'); // node 20 has it, and is asked; later ones need not be
const wasi = new WASI({ version: 'preview1', args: argv.slice(2), preopens: { '.': '.' }, returnOnExit: true });
const { instance } = await WebAssembly.instantiate(await readFile(argv[2]), wasi.getImportObject());
exit(wasi.start(instance));
